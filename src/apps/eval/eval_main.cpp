#include "dtn/app/eval_main.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "apps/eval/class_reporter.h"
#include "apps/eval/coco_evaluation.h"
#include "apps/eval/detector_evaluation.h"
#include "apps/eval/ensemble_models.h"
#include "apps/eval/frozen_evaluation.h"
#include "apps/eval/result_files.h"
#include "apps/eval/sample_evaluation.h"
#include "apps/robustness/robustness.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/seconds_since.h"
#include "data/feed/image_samples.h"
#include "data/feed/open_split.h"
#include "data/feed/token_samples.h"
#include "data/source/input_file.h"
#include "data/source/split_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/backbone.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/diffusion.h"
#include "train/evaluator.h"
#include "train/rank_consistency.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct EvalCommand {
  std::vector<std::string> checkpoints;  // several: an ensemble
  WeightsOptions weights;                // of the first
  FrozenOptions frozen;
  SampleOptions judged;
  CocoOptions coco;
  ResultPaths results;
  ReportOptions report;
  std::string inputs, precision = "fp32";
  std::string suite, suite_root, classes, save;
  std::string detections;  // file for the results of a detector
  bool json = false, no_clean = false;
  bool on_the_fly = false;
  std::string corruptions, severities = "1-5", corrupt_format = "jpeg", frost_dir;
  std::uint64_t corrupt_seed = 0;
  std::optional<int> batch_size;
  MachineOptions machine;
};

// Results of an evaluation; metrics exist only if there were labels.
struct Outcome {
  std::optional<Metrics> metrics;
  std::string noun = "images";          // unit of `count`
  std::int64_t count = 0, skipped = 0;  // `skipped`: damaged samples
  double seconds = 0;
};

DType precision_of(const std::string& name) {
  return name == "bf16" ? DType::kBFloat16 : DType::kFloat32;
}

std::int64_t batch_size_of(const EvalCommand& options, const ExperimentConfig& config) {
  if (options.batch_size) return *options.batch_size;
  return std::min(64, config.train.micro_batch.value_or(config.train.batch_size));
}

// Evaluates the inputs of --inputs without preprocessing.
Outcome run_inputs(const EvalCommand& options, const ExperimentConfig& config, Classify& task,
                   Device device, ClassReporter* reporter) {
  const Fields inputs = read_input_file(options.inputs, config.model);
  const Tensor* labels = inputs.find("label");
  const std::int64_t count = inputs.count(), batch = batch_size_of(options, config);
  if (count == 0) throw DataError(cat(options.inputs, ": has no inputs to evaluate"));
  const bool measures = labels && config.model.num_classes > 0;
  Outcome outcome;
  outcome.count = count;
  if (config.model.max_length > 0) outcome.noun = "sequences";
  ResultFiles results(options.results, task, count, labels ? *labels : Tensor());
  if (reporter) reporter->take_inputs(inputs, options.inputs);
  const std::unique_ptr<Meter> meter = task.meter();
  const DType compute = precision_of(options.precision);
  if (compute == DType::kBFloat16) {
    for (const Named<ParameterStore*>& store : task.stores()) store.value->enable_bfloat16();
  }
  auto start = std::chrono::steady_clock::now();
  for (std::int64_t first = 0; first < count; first += batch) {
    const std::int64_t last = std::min(count, first + batch);
    Context ctx;
    ctx.mode.compute = compute;
    ctx.observer = results.observer();
    ctx.mode.skip_unread = !ctx.observer;
    const Fields host = inputs.rows(first, last);
    Fields there = host;
    for (auto& [name, tensor] : there) tensor = tensor.to(device);
    Fields outputs = task.outputs(ctx, there);
    for (auto& [name, tensor] : outputs) tensor = tensor.to(kCpu);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(last - first));
    std::iota(indices.begin(), indices.end(), first);
    results.add(indices, outputs);
    if (measures) meter->add(host, outputs);
    if (reporter) reporter->add(indices, host.at("label"), outputs.at("logits"));
  }
  outcome.seconds = seconds_since(start);
  results.finish();
  if (measures) outcome.metrics = meter->result();
  if (reporter) reporter->finish(0, *outcome.metrics);
  return outcome;
}

Tensor labels_of(const SampleSource& source) {
  const Dataset* dataset = nullptr;
  if (const auto* images = dynamic_cast<const ImageSamples*>(&source)) dataset = &images->dataset();
  if (const auto* tokens = dynamic_cast<const TokenSamples*>(&source)) dataset = &tokens->dataset();
  if (!dataset) return {};
  Tensor labels = Tensor::empty({source.size()}, DType::kInt64);
  for (std::int64_t i = 0; i < source.size(); ++i) {
    labels.data<std::int64_t>()[i] = dataset->label(i);
  }
  return labels;
}

// The file of --save-logits for a diffusion model: its output for each image.
std::optional<RowFile> output_file_of(const EvalCommand& options, const ExperimentConfig& config,
                                      Task& task, std::int64_t count) {
  auto* diffusion = dynamic_cast<Diffusion*>(&task);
  if (!diffusion || options.results.logits.empty()) return std::nullopt;
  diffusion->keep_output();
  const ImageSize& size = config.model.image_size;
  return std::optional<RowFile>(
      std::in_place, options.results.logits, "output", count,
      Shape{diffusion->model().output_channels(), size.height, size.width}, Tensor());
}

// Evaluates the validation split of the config's data set.
Outcome run_dataset(const EvalCommand& options, const ExperimentConfig& config, Task& task,
                    Device device, ClassReporter* reporter) {
  Communicator& ranks = *job();
  std::optional<Communicator::Work> opening(std::in_place, ranks, "opening the data set",
                                            Communicator::Work::kLong);
  const auto source = validation_source(task, device);
  log_info(cat("val: ", source->description()));
  check_equal_config(config, ranks);
  check_equal_data(*source, ranks);
  for (const Named<ParameterStore*>& store : task.stores()) {
    check_equal_weights(store.value->values(), ranks);
  }
  const auto split = open_split(source, config, Split::kVal,
                                {.device = device,
                                 .batch_size = batch_size_of(options, config) * ranks.size(),
                                 .rank = ranks.rank(),
                                 .ranks = ranks.size()});
  Outcome outcome;
  outcome.noun = source->noun();
  std::optional<ResultFiles> results;
  std::optional<RowFile> images = output_file_of(options, config, task, source->size());
  if (options.results.any() && !images) {
    results.emplace(options.results, dynamic_cast<Classify&>(task), source->size(),
                    labels_of(*source));
  }
  if (reporter) reporter->take_source(*source);
  std::optional<ProgressBar> bar;
  if (ranks.is_root()) bar.emplace("evaluating", split->loader().samples_per_epoch());
  EvalOptions eval;
  eval.compute = precision_of(options.precision);
  eval.ranks = &ranks;
  if (results) eval.observer = results->observer();
  eval.on_batch = [&](const DeviceBatch& batch, const Fields& outputs, std::int64_t done) {
    if (bar) bar->update(done, "");
    if (results) results->add(batch.indices, outputs);
    if (reporter) reporter->add(batch.indices, batch.host.at("label"), outputs.at("logits"));
    if (!images) return;
    const Tensor& rows = outputs.at("output");
    for (std::int64_t i = 0; i < batch.n; ++i) {
      images->add(batch.indices[static_cast<std::size_t>(i)], rows.slice(i, i + 1).data<float>());
    }
  };
  opening.reset();
  const std::optional<Evaluation> evaluation = evaluate(task, split->feeder(), eval);
  if (results) results->finish();
  if (images) images->finish();
  outcome.metrics = evaluation->metrics;
  outcome.count = evaluation->count;
  outcome.skipped = ranks.sum(split->loader().report().bad_images);
  outcome.seconds = evaluation->seconds;
  if (reporter && outcome.count > 0) reporter->finish(outcome.skipped, *outcome.metrics);
  if (outcome.count > 0) return outcome;
  const std::string damaged =
      outcome.skipped > 0 ? cat("; ", counted(outcome.skipped, "damaged " + outcome.noun)) : "";
  throw DataError(cat(source->description(), ": no ", outcome.noun, " to evaluate", damaged));
}

// Prints the results. In JSON, metrics are null if there are no labels.
void report(const EvalCommand& options, const Task& task, const TaskSchema& schema,
            const Outcome& outcome) {
  const double rate =
      outcome.seconds > 0 ? static_cast<double>(outcome.count) / outcome.seconds : 0;
  if (!options.json) {
    if (outcome.metrics) std::printf("%s  ", outcome.metrics->text.c_str());
    const char* noun = outcome.noun.c_str();
    std::printf("%s, %.1f %s/s\n", counted(outcome.count, noun).c_str(), rate, noun);
    if (outcome.skipped > 0) {
      std::printf("skipped %s\n", counted(outcome.skipped, "damaged " + outcome.noun).c_str());
    }
    return;
  }
  nlohmann::ordered_json json;
  for (const FigureSchema& figure : schema.figures) json[figure.name] = nullptr;
  for (const auto& [name, none] : task.meter()->result().values) json[name] = nullptr;
  if (outcome.metrics) {
    for (const auto& [name, value] : outcome.metrics->values) json[name] = value;
  }
  json["count"] = outcome.count;
  json["images_per_second"] = rate;
  json["skipped"] = outcome.skipped;
  std::printf("%s\n", json.dump().c_str());
}

// True if --set names the key.
bool is_set(const EvalCommand& options, std::string_view key) {
  return std::ranges::any_of(options.weights.overrides, [&](const std::string& text) {
    return text.starts_with(key) && text.substr(key.size()).starts_with('=');
  });
}

std::optional<CorruptOnTheFly> on_the_fly(const EvalCommand& options) {
  if (!options.on_the_fly) return std::nullopt;
  if (options.suite != name_of(Suite::kImageNetC)) {
    throw ConfigError("--corrupt-on-the-fly works only with --suite imagenet-c");
  }
  CorruptOnTheFly how;
  if (!options.corruptions.empty()) how.corruptions = parse_corruptions(options.corruptions);
  how.severities = parse_severities(options.severities);
  how.seed = options.corrupt_seed;
  how.format = corrupt_format(options.corrupt_format);
  how.frost_dir = options.frost_dir;
  return how;
}

int evaluate_robustness_suite(const EvalCommand& options, const ExperimentConfig& config,
                              const TensorFile& weights, Classify& task,
                              const Registries& registries) {
  RobustnessOptions suite;
  suite.registries = &registries;
  suite.suite = options.suite == name_of(Suite::kImageNetC) ? Suite::kImageNetC : Suite::kImageNetR;
  suite.root = options.suite_root.empty() ? config.data.root : options.suite_root;
  suite.on_the_fly = on_the_fly(options);
  if (!suite.on_the_fly && suite.root.empty()) {
    throw ConfigError(
        cat("--suite ", options.suite, ": name the folder of its images with --suite-root"));
  }
  suite.classes = options.classes;
  suite.save = options.save;
  suite.clean = !options.no_clean;
  suite.batch_size = batch_size_of(options, config);
  suite.dtype = precision_of(options.precision);
  if (is_set(options, "data.crop_pct")) suite.crop_pct = config.data.crop_pct;
  if (!options.save.empty()) suite.weights = fingerprint_of(weights.tensors);
  const std::optional<RobustnessReport> report = evaluate_robustness(task, config, suite);
  if (!report) return kExitStopped;
  std::fputs(options.json ? (to_json(*report) + "\n").c_str() : to_text(*report).c_str(), stdout);
  return kExitDone;
}

// Throws ConfigError for an option that the task of the model does not have. A diffusion model is
// not a classifier, but --inputs and --save-logits work for it.
void check_options(const EvalCommand& options, const ExperimentConfig& config, Task& task) {
  if (!options.detections.empty()) {
    throw ConfigError(
        cat("--save-results is for detectors; the task of this model is ", config.task));
  }
  const ResultPaths& paths = options.results;
  const bool for_any = options.suite.empty() && options.inputs.empty() &&
                       options.judged.samples.empty() && !paths.any() && !options.report.any();
  if (for_any || dynamic_cast<Classify*>(&task)) return;
  if (!options.judged.samples.empty()) {
    throw ConfigError(
        cat("--samples: the judge of samples is a classifier, but the task of this "
            "model is ",
            config.task, "; name a run of the task classify with --checkpoint"));
  }
  if (options.report.any()) {
    throw ConfigError(cat("--report is for classifiers; the task of this model is ", config.task));
  }
  if (!dynamic_cast<Diffusion*>(&task)) {
    throw ConfigError(
        cat("--suite, --inputs and --save-... are for classifiers; the task of this model is ",
            config.task));
  }
  if (options.suite.empty() && paths.features.empty() && paths.attention.empty()) return;
  throw ConfigError(
      cat("--suite, --save-features and --save-attention are for classifiers; the task of this "
          "model is ",
          config.task, ", which has --inputs and --save-logits"));
}

// The same for a detector.
void check_detector_options(const EvalCommand& options) {
  const ResultPaths& paths = options.results;
  if (options.suite.empty() && options.judged.samples.empty() && paths.features.empty() &&
      paths.attention.empty() && !options.report.any()) {
    return;
  }
  throw ConfigError(
      "--suite, --samples, --report, --save-features and --save-attention are for classifiers; the "
      "task of this model is detect, which has --save-results, and --inputs with --save-logits");
}

// Makes the file of --inputs the validation split of a diffusion model: it may bring time steps and
// noise, as a data set of tensors does.
void evaluate_inputs_as_split(const EvalCommand& options, DataConfig& data) {
  data.dataset = "tensors";
  data.root.clear();
  data.val = options.inputs;
  data.classes.clear();
}

// Evaluates the features of the model, for --task.
int run_frozen(const EvalCommand& options, Device device, const Registries& registries) {
  if (!job()->is_single()) {
    throw ConfigError("--task works in one process; start dtn-eval without mpirun or srun");
  }
  if (options.precision == "bf16") {
    throw ConfigError(
        "--task computes in float32, because the similarities of features may differ by less than "
        "bfloat16 can show; leave --precision out");
  }
  return evaluate_frozen({.weights = options.weights,
                          .options = options.frozen,
                          .inputs = options.inputs,
                          .save_features = options.results.features,
                          .batch_size = options.batch_size,
                          .json = options.json,
                          .device = device,
                          .registries = registries});
}

// Judges the samples of --samples.
int run_samples(const EvalCommand& options, const ExperimentConfig& config, Classify& judge,
                Device device, const Registries& registries) {
  if (options.precision == "bf16") {
    throw ConfigError(
        "--samples computes in float32, so that results compare; leave --precision "
        "out");
  }
  return evaluate_samples({.options = options.judged,
                           .config = config,
                           .judge = judge,
                           .batch = batch_size_of(options, config),
                           .json = options.json,
                           .device = device,
                           .registries = registries});
}

// Throws ConfigError for an option that needs a single model.
void check_ensemble_options(const EvalCommand& options, const std::vector<std::string>& others) {
  if (others.empty()) return;
  const ResultPaths& paths = options.results;
  const bool plain = options.frozen.task.empty() && options.suite.empty() &&
                     options.judged.samples.empty() && options.detections.empty() &&
                     paths.features.empty() && paths.attention.empty();
  if (plain) return;
  throw ConfigError(
      "an ensemble of several checkpoints has --json, --inputs, --save-logits and --report; the "
      "other options need a single one");
}

int run_eval(const EvalCommand& options, const Registries& registries) {
  Device device = options.machine.apply();
  Communicator& ranks = *job();
  if (options.coco.any()) {
    return ranks.is_root() ? evaluate_coco(options.coco, options.json) : kExitDone;
  }
  if (options.weights.checkpoint.empty()) {
    throw ConfigError(
        "name the model with --checkpoint, or files of detections with --coco-annotations and "
        "--coco-results");
  }
  const std::vector<std::string> others(options.checkpoints.begin() + 1, options.checkpoints.end());
  check_ensemble_options(options, others);
  if (!options.frozen.task.empty()) return run_frozen(options, device, registries);
  std::optional<Communicator::Work> starting(std::in_place, ranks, "starting",
                                             Communicator::Work::kLong);
  const bool wants_classes = !options.suite.empty() || !options.inputs.empty() ||
                             !options.judged.samples.empty() || options.results.any() ||
                             !options.detections.empty() || options.report.any();
  if (!ranks.is_single() && wants_classes) {
    throw ConfigError(
        "--suite, --inputs, --samples, --report and --save-... work in one process; start dtn-eval "
        "without mpirun or srun");
  }
  fs::path file = options.weights.file();
  TensorFile weights = read_safetensors(file);
  const auto step = weights.metadata.find("step");
  // The canonical path shows which checkpoint of a run a link points to.
  const std::string at_step = step == weights.metadata.end() ? "" : cat(", step ", step->second);
  log_info(cat("weights: ", fs::canonical(file).string(), at_step));
  ExperimentConfig config = options.weights.config_of(weights, registries.schemas());
  if (registries.tasks.at(config.task).schema.features_only) {
    throw ConfigError(
        cat("the model of the task ", config.task,
            " has no classes; evaluate its features with --task knn or --task linear"));
  }
  const bool noises = config.task == "diffusion";
  if (options.inputs.empty()) take_test_split(config.data);
  if (!options.inputs.empty() && noises) evaluate_inputs_as_split(options, config.data);
  const TaskSetup setup{config, device, registries};
  const std::unique_ptr<Task> task =
      others.empty() ? make_task(setup) : make_ensemble(setup, weights, others, options.weights);
  for (const std::string& note : task->load_weights(file.string(), WeightsUse::kEvaluation))
    log_info(note);
  starting.reset();
  if (auto* detect = dynamic_cast<Detect*>(task.get())) {
    check_detector_options(options);
    return evaluate_detector({.config = config,
                              .task = *detect,
                              .device = device,
                              .compute = precision_of(options.precision),
                              .batch_size = batch_size_of(options, config),
                              .results = options.detections,
                              .inputs = options.inputs,
                              .logits = options.results.logits,
                              .json = options.json});
  }
  check_options(options, config, *task);
  auto* classify = dynamic_cast<Classify*>(task.get());
  if (!options.suite.empty() && config.model.num_classes == 0) {
    throw ConfigError("--suite needs a model with a classification head; model.num_classes is 0");
  }
  if (!options.suite.empty())
    return evaluate_robustness_suite(options, config, weights, *classify, registries);
  if (!options.judged.samples.empty())
    return run_samples(options, config, *classify, device, registries);
  std::unique_ptr<ClassReporter> reporter;
  if (options.report.any()) {
    reporter = std::make_unique<ClassReporter>(options.report, config, *classify,
                                               file.string() + at_step, registries);
  }
  const Outcome outcome = options.inputs.empty() || !classify
                              ? run_dataset(options, config, *task, device, reporter.get())
                              : run_inputs(options, config, *classify, device, reporter.get());
  if (ranks.is_root()) {
    report(options, *task, registries.tasks.at(config.task).schema, outcome);
  }
  return kExitDone;
}

}  // namespace

int eval_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Evaluates a checkpoint, on its data set or on a robustness suite, or computes logits for "
      "given inputs. Evaluates files of detections without a model.",
      "dtn-eval"};
  EvalCommand options;
  app.add_option("--checkpoint,checkpoint", options.checkpoints,
                 "checkpoint folder, run folder, folder of a Hugging Face hub model, or "
                 "safetensors file of weights; several: an ensemble of classifiers, the mean of "
                 "their probabilities");
  options.weights.add_config_to(app, "evaluate the moving average of the weights");
  app.add_flag(
      "--json", options.json,
      "print one JSON object: top1 top5 loss (a diffusion model: loss mse vb; a "
      "detector: bbox and segm as below) count images_per_second skipped (damaged "
      "images); with --report, macro_f1 and ece, too; with --suite or --samples, the results "
      "of all their parts; with --coco-results, {\"bbox\": {AP AP50 AP75 APs APm APl "
      "AR1 AR10 AR100 ARs ARm ARl}, \"segm\": ...} as fractions, -1 where no category "
      "has a truth");
  auto* inputs =
      app.add_option("--inputs", options.inputs,
                     "safetensors file to evaluate instead of the data set: 'images' [N,C,H,W] "
                     "float32, already normalised, or for sequence models 'tokens' [N,T] int32 and "
                     "optionally 'lengths' [N] int32; optionally 'labels' [N] int64; for diffusion "
                     "models 'images' in [-1, 1] or latents, 'labels', and optionally 'timesteps' "
                     "[N] int64 and 'noise' [N,C,H,W]");
  std::vector<CLI::Option*> saving = options.results.add_to(app);
  saving.push_back(options.report.add_to(app));
  auto* suite =
      app.add_option("--suite", options.suite,
                     "evaluate on ImageNet-C (error by corruption and severity, CE, mCE) or "
                     "ImageNet-R (a choice between its classes), and on the clean validation "
                     "images; see docs/robustness.md")
          ->check(CLI::IsMember({"imagenet-c", "imagenet-r"}))
          ->excludes(inputs);
  for (CLI::Option* option : saving) suite->excludes(option);
  auto* judged = options.judged.add_to(app)->excludes(inputs)->excludes(suite);
  for (CLI::Option* option : saving) judged->excludes(option);
  auto* frozen = options.frozen.add_to(app)
                     ->excludes(suite)
                     ->excludes(judged)
                     ->excludes("--save-logits")
                     ->excludes("--report")
                     ->excludes("--save-attention");
  auto* checkpoint = app.get_option("--checkpoint");
  auto* detections = app.add_option(
      "--save-results", options.detections,
      "detectors: write the results of the validation split as a JSON file in COCO's format");
  detections->excludes(inputs)->excludes(suite)->excludes(judged)->excludes(frozen);
  std::vector<CLI::Option*> others = saving;
  others.push_back(detections);
  others.insert(others.end(), {checkpoint, inputs, suite, judged, frozen});
  options.coco.add_to(app, others);
  app.add_option("--suite-root", options.suite_root,
                 "folder of the suite's images (default: data.root)")
      ->needs(suite);
  app.add_option("--classes", options.classes,
                 "file with the names of the model's classes in the order of their labels, one per "
                 "line (default: the names in the checkpoint, else the class folders of data.root, "
                 "else ImageNet's)")
      ->needs(suite);
  app.add_option("--save", options.save,
                 "save each result of --suite to this JSON file; an existing file is continued")
      ->needs(suite);
  auto* made = app.add_flag("--corrupt-on-the-fly", options.on_the_fly,
                            "make the images of imagenet-c from the clean images of data.root "
                            "during the evaluation, instead of reading folders");
  made->needs(suite)->excludes("--suite-root");
  app.add_option(
         "--corruption", options.corruptions,
         "for --corrupt-on-the-fly: names separated by commas, or `all` for all 19 (default: the "
         "15 of the benchmark; for images smaller than 224 x 224, those that work at any size)")
      ->needs(made);
  add_defaulted(app, "--severity", options.severities,
                "for --corrupt-on-the-fly: 1 to 5, a list such as 1-5, 3 or 1,3-4")
      ->needs(made);
  add_defaulted(app, "--seed", options.corrupt_seed,
                "for --corrupt-on-the-fly: seed of the random corruptions")
      ->needs(made);
  add_choice(app, "--corrupt-format", options.corrupt_format, {"jpeg", "png"},
             "for --corrupt-on-the-fly: evaluate the images that `dtn-data corrupt` would "
             "write as jpeg (quality 85, as in ImageNet-C) or png")
      ->needs(made);
  app.add_option("--frost-dir", options.frost_dir,
                 "for --corrupt-on-the-fly: folder of frost images (default: generated stand-ins)")
      ->needs(made);
  app.add_flag("--no-clean", options.no_clean, "with --suite: do not evaluate the clean images")
      ->needs(suite);
  add_choice(app, "--precision", options.precision, {"fp32", "bf16"}, "fp32 or bf16");
  app.add_option("--batch-size", options.batch_size, "images per batch (default: at most 64)")
      ->check(positive());
  options.machine.add_to(app);
  options.machine.add_ranks_to(app);
  return run_program(app, argc, argv, Processes::kSeveral, [&] {
    if (!options.checkpoints.empty()) options.weights.checkpoint = options.checkpoints.front();
    return run_eval(options, registries);
  });
}

}  // namespace dtn::app
