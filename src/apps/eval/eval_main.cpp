#include "dtn/app/eval_main.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "apps/eval/coco_evaluation.h"
#include "apps/eval/detector_evaluation.h"
#include "apps/eval/ensemble_models.h"
#include "apps/eval/frozen_evaluation.h"
#include "apps/eval/sample_evaluation.h"
#include "apps/eval/task_evaluation.h"
#include "apps/robustness/suite_evaluation.h"
#include "data/source/split_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/tasks/diffusion.h"
#include "dtn/tasks/multilabel.h"
#include "dtn/tasks/translate.h"

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
  SuiteOptions suite;
  GridOptions grid;
  ConditionOptions condition;
  std::string inputs, precision = "fp32";
  std::string detections;  // file for the results of a detector
  bool json = false;
  std::optional<int> batch_size;
  MachineOptions machine;
};

DType precision_of(const std::string& name) {
  return name == "bf16" ? DType::kBFloat16 : DType::kFloat32;
}

std::int64_t batch_size_of(const EvalCommand& options, const ExperimentConfig& config) {
  if (options.batch_size) return *options.batch_size;
  return std::min(64, config.train.micro_batch.value_or(config.train.batch_size));
}

// True if --set names the key.
bool is_set(const EvalCommand& options, std::string_view key) {
  return std::ranges::any_of(options.weights.overrides, [&](const std::string& text) {
    return text.starts_with(key) && text.substr(key.size()).starts_with('=');
  });
}

// Throws ConfigError for an option that needs a model of one class for each image.
void check_multilabel_options(const EvalCommand& options) {
  if (!options.suite.any() && options.judged.samples.empty()) return;
  throw ConfigError(
      "--suite and --samples need a classifier of one class for each image; the task of this model "
      "is multilabel");
}

// Throws ConfigError for an option that the task of the model does not have. A diffusion model is
// not a classifier, but --inputs and --save-logits work for it.
void check_options(const EvalCommand& options, const ExperimentConfig& config, Task& task) {
  if (!options.detections.empty()) {
    throw ConfigError(
        cat("--save-results is for detectors; the task of this model is ", config.task));
  }
  if (!options.grid.file.empty() && !dynamic_cast<Translate*>(&task)) {
    throw ConfigError(
        cat("--grid is for image-to-image models; the task of this model is ", config.task));
  }
  if (options.condition.any()) options.condition.check(config);
  const ResultPaths& paths = options.results;
  if (dynamic_cast<Multilabel*>(&task)) return check_multilabel_options(options);
  const bool for_any = !options.suite.any() && options.inputs.empty() &&
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
  if (!dynamic_cast<Diffusion*>(&task) && !dynamic_cast<Translate*>(&task)) {
    throw ConfigError(
        cat("--suite, --inputs and --save-... are for classifiers; the task of this model is ",
            config.task));
  }
  if (!options.suite.any() && paths.features.empty() && paths.attention.empty()) return;
  throw ConfigError(
      cat("--suite, --save-features and --save-attention are for classifiers; the task of this "
          "model is ",
          config.task, ", which has --inputs and --save-logits"));
}

// The same for a detector.
void check_detector_options(const EvalCommand& options, const ExperimentConfig& config) {
  if (!options.grid.file.empty()) {
    throw ConfigError("--grid is for image-to-image models; the task of this model is detect");
  }
  if (options.condition.any()) options.condition.check(config);
  const ResultPaths& paths = options.results;
  if (!options.suite.any() && options.judged.samples.empty() && paths.features.empty() &&
      paths.attention.empty() && !options.report.any()) {
    return;
  }
  throw ConfigError(
      "--suite, --samples, --report, --save-features and --save-attention are for classifiers; the "
      "task of this model is detect, which has --save-results, and --inputs with --save-logits");
}

// Makes the file of --inputs the validation split of a model of images: it may have more fields, as
// a data set of tensors does.
void evaluate_inputs_as_split(const EvalCommand& options, DataConfig& data) {
  data.dataset = "tensors";
  data.root.clear();
  data.val = options.inputs;
  data.classes.clear();
  data.corruptions.clear();
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

// Prepares references like samples, which are whole images.
void take_whole_images(DataConfig& data) {
  if (data.crop_pct == 1) return;
  log_info(cat("data.crop_pct: 1 in place of ", data.crop_pct,
               ", because samples are compared with whole images"));
  data.crop_pct = 1;
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
  const bool plain = options.frozen.task.empty() && !options.suite.any() &&
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
  const bool wants_classes = options.suite.any() || !options.inputs.empty() ||
                             !options.judged.samples.empty() || options.results.any() ||
                             !options.detections.empty() || options.report.any() ||
                             !options.grid.file.empty() || options.condition.any();
  if (!ranks.is_single() && wants_classes) {
    throw ConfigError(
        "--suite, --inputs, --samples, --report, --grid, --shuffle-condition, --style-table and "
        "--save-... work in one process; start dtn-eval without mpirun or srun");
  }
  fs::path file = options.weights.file(registries.schemas());
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
  const bool makes_images = config.task == "diffusion" || config.task == "translate";
  if (options.inputs.empty()) take_test_split(config.data);
  if (!options.inputs.empty() && makes_images) evaluate_inputs_as_split(options, config.data);
  if (!options.judged.samples.empty()) take_whole_images(config.data);
  const TaskSetup setup{config, device, registries};
  const std::unique_ptr<Task> task =
      others.empty() ? make_task(setup) : make_ensemble(setup, weights, others, options.weights);
  for (const std::string& note : task->load_weights(file.string(), WeightsUse::kEvaluation))
    log_info(note);
  starting.reset();
  if (auto* detect = dynamic_cast<Detect*>(task.get())) {
    check_detector_options(options, config);
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
  const DType compute = precision_of(options.precision);
  const std::int64_t batch_size = batch_size_of(options, config);
  auto* classify = dynamic_cast<Classify*>(task.get());
  if (options.suite.any()) {
    return evaluate_suite({.options = options.suite,
                           .config = config,
                           .weights = weights,
                           .task = *classify,
                           .batch_size = batch_size,
                           .compute = compute,
                           .own_crop = is_set(options, "data.crop_pct"),
                           .json = options.json,
                           .registries = registries});
  }
  if (!options.judged.samples.empty()) {
    return run_samples(options, config, *classify, device, registries);
  }
  std::unique_ptr<ModelReporter> reporter;
  if (options.report.any()) {
    reporter =
        make_reporter(options.report, {config, *classify, file.string() + at_step, registries});
  }
  const TaskEvaluation evaluation{.config = config,
                                  .task = *task,
                                  .device = device,
                                  .compute = compute,
                                  .batch_size = batch_size,
                                  .results = options.results,
                                  .reporter = reporter.get(),
                                  .grid = options.grid,
                                  .condition = options.condition};
  const Outcome outcome = options.inputs.empty() || !classify
                              ? evaluate_split(evaluation)
                              : evaluate_inputs(evaluation, options.inputs);
  if (ranks.is_root()) {
    print_outcome(outcome, *task, registries.tasks.at(config.task).schema, options.json);
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
      "print one JSON object: top1 top5 loss (multilabel: map f1_micro f1_macro threshold loss; a "
      "diffusion model: loss mse vb; an image-to-image model: psnr ssim l1 loss input_psnr "
      "input_ssim iou; a detector: bbox and segm as below) count images_per_second "
      "skipped (damaged "
      "images); with --report, macro_f1 and ece, too; with --suite or --samples, the results "
      "of all their parts; with --coco-results, {\"bbox\": {AP AP50 AP75 APs APm APl "
      "AR1 AR10 AR100 ARs ARm ARl}, \"segm\": ...} as fractions, -1 where no category "
      "has a truth");
  auto* inputs = app.add_option(
      "--inputs", options.inputs,
      "safetensors file to evaluate instead of the data set: 'images' [N,C,H,W] "
      "float32, already normalised, or for sequence models 'tokens' [N,T] int32 and "
      "optionally 'lengths' [N] int32; optionally 'labels' [N] int64, for multilabel "
      "[N,K] of 0 and 1; for diffusion "
      "models 'images' in [-1, 1] or latents, 'labels', and optionally 'timesteps' "
      "[N] int64 and 'noise' [N,C,H,W]; for image-to-image models 'input' and 'target' [N,C,H,W] "
      "in [0, 1], and what the model reads of 'style' [N] int64, 'vector' [N,K], 'map' and "
      "'style_image' [N,C,H,W]");
  std::vector<CLI::Option*> saving = options.results.add_to(app);
  saving.push_back(options.report.add_to(app));
  auto* suite = options.suite.add_to(app)->excludes(inputs);
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
  auto* grid = options.grid.add_to(app);
  std::vector<CLI::Option*> translating = options.condition.add_to(app);
  translating.push_back(grid);
  for (CLI::Option* option : translating) {
    for (CLI::Option* other : {suite, judged, frozen}) option->excludes(other);
  }
  std::vector<CLI::Option*> others = saving;
  others.insert(others.end(), translating.begin(), translating.end());
  others.push_back(detections);
  others.insert(others.end(), {checkpoint, inputs, suite, judged, frozen});
  options.coco.add_to(app, others);
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
