#include "dtn/app/predict_main.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "apps/predict/pictures.h"
#include "apps/predict/predict_objects.h"
#include "apps/predict/predictions.h"
#include "apps/predict/translate_pictures.h"
#include "config/codec.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "data/feed/open_split.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/tasks/multilabel.h"
#include "tasks/class_names.h"

namespace dtn::app {
namespace {

struct PredictCommand {
  WeightsOptions weights;
  std::vector<std::string> paths;
  std::string csv, precision = "fp32", style, style_image;
  int topk = 5;
  std::int64_t batch_size = 64;
  bool json = false;
  DetectionFormat objects;  // of a detector
  MachineOptions machine;
};

DType compute_of(const PredictCommand& options) {
  return options.precision == "bf16" ? DType::kBFloat16 : DType::kFloat32;
}

// Adjusts the config so that images are prepared as dtn-eval prepares them.
ExperimentConfig for_pictures(ExperimentConfig config, std::int64_t pictures) {
  if (config.model.num_classes == 0) {
    throw ConfigError(
        "the model has no head (model.num_classes is 0), so it cannot predict classes");
  }
  if (config.data.dataset == "tensors" && config.data.mean.empty()) {
    log_warn(
        "the model was trained on tensors that were already normalized; images are normalized by "
        "ImageNet's mean and standard deviation, unless data.mean and data.std are set (--set)");
  }
  config.data.max_bad_images = pictures;  // report each damaged image, and do not stop
  return config;
}

// Returns the threshold of a model of images with any number of classes; unset for others.
std::optional<double> threshold_of(const Classify& task) {
  const auto* multilabel = dynamic_cast<const Multilabel*>(&task);
  if (!multilabel) return std::nullopt;
  return multilabel->threshold().value_or(Multilabel::kUsualThreshold);
}

PictureCount predict_all(const PredictCommand& options, const ExperimentConfig& config,
                         Classify& task, const std::shared_ptr<const FaultKeepingSource>& source,
                         Device device, PredictionWriter& writer) {
  const auto split =
      open_split(source, config, Split::kVal, {.device = device, .batch_size = options.batch_size});
  PictureCount count;
  const auto write_faults = [&](std::int64_t end) {
    for (; const auto fault = source->take_fault(end); ++count.damaged) {
      writer.add_fault(source->sample_name(fault->first), fault->second);
    }
  };
  const std::optional<double> threshold = threshold_of(task);
  const DType compute = compute_of(options);
  if (compute == DType::kBFloat16) task.model().parameters().enable_bfloat16();
  BatchFeeder& feeder = split->feeder();
  feeder.start(0);
  for (DeviceBatch batch; feeder.next(batch);) {
    Context ctx;
    ctx.mode.compute = compute;
    const Tensor logits = task.outputs(ctx, batch.fields).at("logits").to(kCpu);
    const std::int64_t classes = logits.dim(1);
    for (std::int64_t i = 0; i < batch.n; ++i) {
      const std::int64_t index = batch.indices[static_cast<std::size_t>(i)];
      write_faults(index);
      const float* row = logits.data<float>() + i * classes;
      writer.add(source->sample_name(index),
                 threshold ? best_labels(row, classes, options.topk, *threshold)
                           : best_guesses(row, classes, options.topk));
    }
    count.done += batch.n;
  }
  write_faults(source->size());
  return count;
}

// Returns the style that the model is to read, the number or the label set that `given` names.
// Unset: the model reads none. Throws ConfigError if `given` does not fit the model.
std::optional<std::int64_t> style_of(const std::string& given, const ExperimentConfig& config) {
  const ConditionConfig& condition = config.model.condition;
  if (condition.from == ConditionFrom::kVector) {
    throw ConfigError(
        "the model reads a vector with each image (model.condition.from: vector); use dtn-eval "
        "--inputs with a file of images and vectors");
  }
  if (!condition.from) {
    if (given.empty()) return std::nullopt;
    throw ConfigError("the model reads no style (model.condition.from); leave --style out");
  }
  const std::vector<LabelSet>& sets = config.data.label_sets;
  std::string known;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].name == given) return static_cast<std::int64_t>(i);
    known += cat(i == 0 ? "; the label sets are: " : ", ", sets[i].name);
  }
  std::int64_t style = 0;
  const std::int64_t end = condition.styles.value_or(0);
  if (config::parse_integer(given, style) && style >= 0 && style < end) return style;
  throw ConfigError(cat(given.empty() ? "the model reads a style with each image; set --style"
                                      : cat("--style ", given, " is not"),
                        given.empty() ? " to" : "", " a number from 0 to ", end - 1, known));
}

// Throws ConfigError for a model that was trained without a classifier.
void check_has_classes(const PredictCommand& options, const ExperimentConfig& config,
                       const Registries& registries) {
  if (!registries.tasks.at(config.task).schema.features_only) return;
  const std::string& weights = options.weights.checkpoint;
  throw ConfigError(cat("the model of the task ", config.task,
                        " has no classes to predict. Fine-tune it on labelled images: dtn-train "
                        "--config finetune_small_set --set model.init_weights=",
                        weights, ". Or look at its features: dtn-eval --checkpoint ", weights,
                        " --task knn"));
}

// Reports the end of the work, and returns the exit code.
int finish(const PictureCount& count, std::chrono::steady_clock::time_point start) {
  log_info(cat(counted(count.done, "images"), format(" in %.1f s", seconds_since(start))));
  if (count.damaged == 0) return kExitDone;
  log_error(cat(count.damaged, " of ", counted(count.done + count.damaged, "images"),
                " could not be read"));
  return kExitData;
}

int run_detector(const PredictCommand& options, const ExperimentConfig& config, Detect& task,
                 const std::filesystem::path& file, const std::vector<InputPicture>& pictures,
                 const StringMap& metadata, Device device) {
  if (!options.csv.empty()) {
    throw ConfigError("--csv is a table of classes; for a detector use --json or --output");
  }
  for (const std::string& note : task.load_weights(file.string(), WeightsUse::kEvaluation)) {
    log_info(note);
  }
  DetectionFormat format = options.objects;
  format.json = options.json;
  format.text = !options.json;
  format.upright = config.data.exif;
  const auto start = std::chrono::steady_clock::now();
  const PictureCount count =
      predict_objects({.config = config,
                       .task = task,
                       .device = device,
                       .compute = compute_of(options),
                       .batch_size = std::min<std::int64_t>(options.batch_size, 8),
                       .pictures = pictures,
                       .format = format,
                       .names = class_words(metadata, config.model.num_classes)});
  return finish(count, start);
}

int run_translation(const PredictCommand& options, const ExperimentConfig& config, Translate& task,
                    const std::filesystem::path& file, const std::vector<InputPicture>& pictures,
                    Device device) {
  if (!options.csv.empty()) {
    throw ConfigError("--csv is a table of classes, and the result of this model is pictures");
  }
  if (options.objects.output.empty()) {
    throw ConfigError("the result of this model is pictures; set --output to a folder for them");
  }
  for (const std::string& note : task.load_weights(file.string(), WeightsUse::kEvaluation)) {
    log_info(note);
  }
  const auto start = std::chrono::steady_clock::now();
  const bool by_index = config.model.condition.from == ConditionFrom::kIndex;
  if (!by_index && !options.style.empty()) {
    throw ConfigError(
        "the model reads no number of a style (model.condition.from: index); leave --style out");
  }
  const PictureCount count =
      translate_pictures({.config = config,
                          .task = task,
                          .device = device,
                          .compute = compute_of(options),
                          .pictures = pictures,
                          .folder = options.objects.output,
                          .style = by_index ? style_of(options.style, config) : std::nullopt,
                          .style_image = options.style_image,
                          .json = options.json});
  return finish(count, start);
}

int run_predict(const PredictCommand& options, const Registries& registries) {
  const Device device = options.machine.apply();
  const std::filesystem::path file = options.weights.file(registries.schemas());
  const TensorFile weights = read_safetensors(file);
  const ExperimentConfig stored = options.weights.config_of(weights, registries.schemas());
  const std::vector<InputPicture> listed = list_pictures(options.paths);
  if (stored.task == "translate") {
    const std::unique_ptr<Task> task = make_task({stored, device, registries});
    return run_translation(options, stored, dynamic_cast<Translate&>(*task), file, listed, device);
  }
  if (!options.style_image.empty()) {
    throw ConfigError(
        cat("--style-image is for image-to-image models; the task of this model is ", stored.task));
  }
  const auto pictures = open_pictures(listed, style_of(options.style, stored));
  const ExperimentConfig config = for_pictures(stored, pictures->size());
  check_has_classes(options, config, registries);
  const std::unique_ptr<Task> task = make_task({config, device, registries});
  if (auto* detect = dynamic_cast<Detect*>(task.get())) {
    return run_detector(options, config, *detect, file, listed, weights.metadata, device);
  }
  if (!options.objects.output.empty()) {
    throw ConfigError(cat("--output draws objects, and the task of this model is ", config.task));
  }
  auto* classify = dynamic_cast<Classify*>(task.get());
  if (!classify) {
    throw ConfigError(cat(
        "dtn-predict needs a classifier, a detector or an image-to-image model; the task of this "
        "model is ",
        config.task));
  }
  if (config.model.max_length > 0) {
    throw ConfigError(
        "dtn-predict takes images, and the input of this model is token sequences; use dtn-eval to "
        "evaluate it");
  }
  for (const std::string& note : task->load_weights(file.string(), WeightsUse::kEvaluation))
    log_info(note);
  const auto source = std::make_shared<const FaultKeepingSource>(
      image_samples_of(pictures, config, Split::kVal, device, registries));
  PredictionWriter writer({.text = !options.json && options.csv.empty(),
                           .json = options.json,
                           .csv = options.csv,
                           .threshold = threshold_of(*classify)},
                          class_words(weights.metadata, config.model.num_classes));
  const auto start = std::chrono::steady_clock::now();
  const PictureCount count = predict_all(options, config, *classify, source, device, writer);
  writer.finish();
  return finish(count, start);
}

}  // namespace

int predict_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Predicts the classes of images, finds the objects in them, or restores them, after "
      "preparing "
      "them as dtn-eval does; image-to-image models take pictures of any size. Damaged images are "
      "reported and skipped; the exit code is then 3.",
      "dtn-predict"};
  PredictCommand options;
  app.add_option(
         "images", options.paths,
         "image files (JPEG, PNG, WebP, GIF, BMP, PNM, TGA, PSD, HDR, PIC; recognized by their "
         "content), and folders, searched recursively")
      ->type_name("IMG...")
      ->required();
  options.weights.add_to(app, "use the moving average of the weights", "--checkpoint");
  add_count(app, "--topk", options.topk,
            "number of classes to print for each image; a multilabel model prints those that reach "
            "its threshold as text, and at least this many as JSON and table");
  app.add_option(
      "--csv", options.csv,
      "write a table to this file instead: file, rank, label, name, probability, and of a "
      "multilabel model predicted (1 or 0)");
  app.add_flag("--json", options.json,
               "print one JSON object per line: file and top, or file and error; top has label, "
               "name and probability, of a multilabel model also predicted. A detector: file and "
               "detections, each with label, name, score, "
               "box [x1, y1, x2, y2] and with masks mask {size, counts}");
  options.objects.add_to(app);
  app.add_option("--style", options.style,
                 "condition of all images, for a model with model.condition.from: index: its "
                 "number, or the name of a label set (data.label_sets)");
  app.add_option("--style-image", options.style_image,
                 "picture whose style all images get, for an image-to-image model with "
                 "model.condition.from: image");
  add_choice(app, "--precision", options.precision, {"fp32", "bf16"}, "fp32 or bf16");
  add_count(app, "--batch-size", options.batch_size, "images per batch");
  options.machine.add_to(app);
  return run_program(app, argc, argv, Processes::kOne,
                     [&] { return run_predict(options, registries); });
}

}  // namespace dtn::app
