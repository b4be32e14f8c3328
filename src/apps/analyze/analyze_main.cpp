#include "dtn/app/analyze_main.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/analyze/analysis.h"
#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "apps/report/analysis/figures.h"
#include "core/format.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/io/safetensors.h"
#include "io/atomic_file.h"
#include "io/weights_file.h"
#include "plot/picture_files.h"
#include "train/checkpoint.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct AnalyzeCommand {
  std::vector<std::string> checkpoints, names;
  std::string config, output = "analysis";
  AnalysisOptions analysis;
  bool before = false, illustrations = false;
  MachineOptions machine{.device = "cpu"};
};

constexpr const char* kFresh = "init";  // value of --checkpoint for a model before training

AnalysisSubject fresh_model(const AnalyzeCommand& options, const Registries& registries) {
  if (options.config.empty()) {
    throw ConfigError(
        cat("--checkpoint ", kFresh, " needs --config, the config of the model to initialize"));
  }
  AnalysisSubject subject;
  const ConfigSchemas schemas = registries.schemas();
  subject.config = load_experiment(find_config(options.config, schemas), {}, schemas);
  subject.source = kFresh;
  subject.step = 0;
  return subject;
}

// Loads the last checkpoint and the history of a run, a checkpoint folder, or a weights file.
AnalysisSubject saved_model(const AnalyzeCommand& options, const std::string& named,
                            const Registries& registries) {
  AnalysisSubject subject;
  subject.source = named;
  WeightsOptions weights;
  weights.checkpoint = named;
  if (const fs::path last = fs::path(named) / "checkpoints" / "last"; fs::exists(last)) {
    weights.checkpoint = last.string();
    subject.history = fs::path(named) / "norms.jsonl";
  }
  subject.weights = weights.file(registries.schemas());
  const TensorFile file = read_safetensors(*subject.weights, {.map = true});
  if (!file.metadata.contains("config")) weights.config = options.config;
  subject.config = weights.config_of(file, registries.schemas());
  if (const auto step = file.metadata.find("step"); step != file.metadata.end()) {
    subject.step = std::stoll(step->second);
  }
  return subject;
}

// Names the subjects by --name, or else by their configs. A repeated name gets a number.
void name_subjects(const std::vector<std::string>& names, std::vector<AnalysisSubject>& subjects) {
  if (!names.empty() && names.size() != subjects.size()) {
    throw ConfigError(cat("--name has ", counted(names.size(), "names"), " for ",
                          counted(subjects.size(), "checkpoints"),
                          "; give one name per checkpoint, separated by commas"));
  }
  std::set<std::string> taken;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const std::string wanted = names.empty() ? subjects[i].config.name : names[i];
    subjects[i].name = wanted;
    for (int n = 2; !taken.insert(subjects[i].name).second; ++n) {
      subjects[i].name = cat(wanted, " ", n);
    }
  }
}

// Returns the state of a model before its training: the checkpoint of step 0 beside its checkpoint,
// or else the model that its config and seed initialize. Nothing if the model is that state.
std::optional<AnalysisSubject> state_before(const AnalysisSubject& trained) {
  if (trained.step == 0) return std::nullopt;
  AnalysisSubject before;
  before.name = trained.name + ", before training";
  before.config = trained.config;
  before.step = 0;
  const fs::path checkpoints = trained.weights->parent_path().parent_path();
  const fs::path first = checkpoints / checkpoint_path({}, 0).filename();
  if (const auto weights = find_weights(first)) {
    before.source = first.string();
    before.weights = weights;
    return before;
  }
  if (trained.config.model.init_weights) {
    throw ConfigError(cat("--before: the training of ", trained.source,
                          " began from model.init_weights, and ", first.string(),
                          " does not exist; train it with train.log_norms, which keeps that "
                          "checkpoint"));
  }
  log_info(cat(before.name, ": there is no checkpoint of step 0; the model is initialized from ",
               "its config and seed"));
  before.source = cat(kFresh, " of ", trained.source);
  return before;
}

// Puts the state before training in front of each subject.
std::vector<AnalysisSubject> with_states_before(std::vector<AnalysisSubject> subjects) {
  std::vector<AnalysisSubject> all;
  for (AnalysisSubject& subject : subjects) {
    if (auto before = state_before(subject)) {
      before->before_training_of = all.size() + 1;
      all.push_back(std::move(*before));
    }
    all.push_back(std::move(subject));
  }
  return all;
}

void write_figures(const fs::path& output, const std::vector<plot::Figure>& figures) {
  plot::PictureFolder folder(output / "figures");
  for (const plot::Figure& figure : figures) folder.write(figure.name, figure.svg);
}

int run_analyze(const AnalyzeCommand& options, const Registries& registries) {
  options.machine.apply();
  if (options.checkpoints.empty()) {
    throw ConfigError("--checkpoint is required: a run, a checkpoint, a weights file or 'init'");
  }
  AnalysisOptions analysis = options.analysis;
  for (const std::string& named : options.checkpoints) {
    analysis.subjects.push_back(named == kFresh ? fresh_model(options, registries)
                                                : saved_model(options, named, registries));
  }
  name_subjects(options.names, analysis.subjects);
  if (options.before) analysis.subjects = with_states_before(std::move(analysis.subjects));
  const Analysis result = analyze(analysis, registries);
  const std::vector<plot::Figure> figures = draw_figures(result.json, result.previews);
  const fs::path output = options.output;
  fs::create_directories(output);
  write_file_atomic(output / "analysis.json", result.json.dump() + "\n");
  write_figures(output, figures);
  write_file_atomic(output / "report.html", report_html(result.json, figures));
  log_info(cat("numbers: ", (output / "analysis.json").string(),
               "; figures: ", (output / "report.html").string()));
  return kExitDone;
}

// Draws figures 4 and 5 of the paper, which need no model.
int run_illustrations(const AnalyzeCommand& options) {
  write_figures(options.output, illustrations());
  log_info(cat("figures: ", (fs::path(options.output) / "figures").string()));
  return kExitDone;
}

}  // namespace

int analyze_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Analyzes trained models: what their normalizers, attention and layers do to images, in "
      "numbers and figures; see docs/analyze.md.",
      "dtn-analyze"};
  AnalyzeCommand options;
  const auto many = CLI::MultiOptionPolicy::TakeAll;
  app.add_option(
         "--checkpoint,checkpoint", options.checkpoints,
         "run folder (its last checkpoint and its history), checkpoint folder or safetensors file "
         "of weights; `init`: the model of --config before training (repeatable)")
      ->type_name("DIR|FILE")
      ->expected(1)
      ->multi_option_policy(many);
  app.add_option("--name", options.names,
                 "names of the checkpoints, in their order (default: the names of their configs)")
      ->type_name("A,B,...")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(many);
  app.add_option("--config", options.config,
                 "config file or name, or the name of a public model (dtn-info --models), for "
                 "checkpoints that contain no config");
  auto* inputs =
      app.add_option("--inputs", options.analysis.inputs,
                     "safetensors file to use instead of the data set: 'images' [N,C,H,W] float32, "
                     "already normalised, and optionally 'labels' [N] int64; for an image-to-image "
                     "model 'input' and 'target', and what the model reads");
  app.add_option("--images", options.analysis.images,
                 "number of images, drawn evenly over the classes of the evaluation split "
                 "(default: 64)")
      ->check(positive())
      ->excludes(inputs);
  app.add_option("--seed", options.analysis.seed, "seed of that draw (default: 0)")
      ->check(non_negative())
      ->excludes(inputs);
  add_defaulted(app, "--output", options.output, "folder to write");
  app.add_option("--token", options.analysis.token,
                 "token whose row of the position matrix is shown, counted from 0 (default: the "
                 "token in the middle)")
      ->check(non_negative());
  app.add_flag("--before", options.before,
               "also analyze each model as it was before training: checkpoints/step-00000000 of "
               "its run, or else the model that its config and seed initialize");
  app.add_flag("--illustrations", options.illustrations,
               "only draw explanations of P and of relative positions");
  app.add_option("--threads", options.machine.threads, "computing threads (default: one per core)")
      ->check(positive());
  return run_program(app, argc, argv, Processes::kOne, [&] {
    return options.illustrations ? run_illustrations(options) : run_analyze(options, registries);
  });
}

}  // namespace dtn::app
