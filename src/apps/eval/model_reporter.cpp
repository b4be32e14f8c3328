#include "apps/eval/model_reporter.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "apps/eval/class_reporter.h"
#include "apps/eval/label_reporter.h"
#include "core/format.h"
#include "data/feed/image_samples.h"
#include "data/feed/single_sample.h"
#include "data/feed/token_samples.h"
#include "data/sample/preview.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "dtn/tasks/multilabel.h"
#include "io/image/image_encode.h"
#include "io/output_folder.h"
#include "tasks/class_names.h"
#include "tasks/frozen/neighbor_sheet.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

constexpr int kPictureSide = 160;  // pixels, so that a page with 96 pictures stays below 2 MiB
constexpr int kSmallSide = 48;     // smaller pictures keep all their pixels
constexpr int kJpegQuality = 85;

const Dataset* dataset_of(const SampleSource& source) {
  if (const auto* images = dynamic_cast<const ImageSamples*>(&source)) return &images->dataset();
  if (const auto* tokens = dynamic_cast<const TokenSamples*>(&source)) return &tokens->dataset();
  return nullptr;
}

// Returns the bytes of a picture of an input [1, C, H, W] of a model.
std::string picture_file(const Tensor& input, const Normalization& normalization) {
  const ImageSize size{static_cast<int>(input.dim(2)), static_cast<int>(input.dim(3))};
  const Image image =
      preview_of(input.data<float>(), input.dim(1), size, normalization.mean, normalization.std);
  std::vector<std::byte> bytes;
  if (std::max(image.width, image.height) <= kSmallSide) {
    encode_png(image, bytes);
  } else {
    encode_jpeg(reduced_to(image, kPictureSide), kJpegQuality, bytes);
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

CLI::Option* ReportOptions::add_to(CLI::App& app) {
  auto* report = app.add_option(
      "--report", folder,
      "classifiers: write a page on where the model is wrong to DIR/report.html (confused classes, "
      "surely wrong images, precision, recall and F1 of each class, calibration), and its numbers "
      "to DIR/report.json; see docs/evaluation.md");
  report->type_name("DIR");
  app.add_flag("--csv", csv,
               "with --report: also write classes.csv, confusions.csv, reliability.csv, top_k.csv "
               "and samples.csv (every image with its prediction) to DIR")
      ->needs(report);
  return report;
}

ModelReporter::ModelReporter(const ReportOptions& options, const ReportedModel& model)
    : options_(options), model_(model) {
  if (model.config.model.num_classes == 0) {
    throw ConfigError("--report needs a model with a classification head; model.num_classes is 0");
  }
  check_output_folder(options.folder);
}

void ModelReporter::introduce(const std::string& data) {
  report().title = cat("Where ", model_.config.name, " is wrong");
  report().lead = {cat("Weights: ", model_.weights, "."), cat("Data: ", data, ".")};
}

void ModelReporter::name_classes(std::vector<std::string> names) {
  const auto count = static_cast<std::size_t>(model_.config.model.num_classes);
  if (names.empty() && model_.task.classes()) names = model_.task.classes()->names;
  put_into_words(names);
  if (names.empty() && count == imagenet_class_words().size()) names = imagenet_class_words();
  for (std::size_t c = names.size(); c < count; ++c) names.push_back(cat("class ", c));
  report().classes = std::move(names);
}

void ModelReporter::take_source(const SampleSource& source) {
  const Dataset* dataset = dataset_of(source);
  const auto is_label = [&](const FieldSpec& field) { return field.name == label_field(); };
  const bool has_field = std::ranges::any_of(source.host_fields(), is_label);
  const bool unknown = dataset && !dataset->has_labels() && !dataset->ready_fields().has("labels");
  if (!has_field || unknown) {
    throw DataError(
        cat(source.description(), ": --report needs labels, and the samples have none"));
  }
  report().noun = source.noun();
  introduce(source.description());
  name_classes(source.class_names());
  place_ = [&source](std::int64_t index) { return source.sample_name(index); };
  report().name = [&source, dataset](std::int64_t index) {
    return dataset ? dataset->item_name(index) : source.sample_name(index);
  };
  const auto is_image = [](const FieldSpec& field) { return field.name == "image"; };
  if (std::ranges::none_of(source.device_fields(), is_image)) return;
  const ImageSize& size = model_.config.model.image_size;
  report().pixelated = std::max(size.height, size.width) <= kSmallSide;
  const Normalization normalization =
      shown_normalization(source, model_.config, model_.registries.datasets);
  report().picture = [&source, normalization](std::int64_t index) -> std::string {
    try {
      return picture_file(single_sample(source, index, 0).at("image"), normalization);
    } catch (const DataError&) {  // the file has changed since it was evaluated
      return "";
    }
  };
}

void ModelReporter::take_inputs(const Fields& inputs, const std::string& file) {
  if (!inputs.has(label_field())) {
    throw DataError(cat(file, ": --report needs the tensor ", label_tensor()));
  }
  if (model_.config.model.max_length > 0) report().noun = "sequences";
  introduce(file);
  name_classes({});
  place_ = [](std::int64_t index) { return index; };
  report().name = [](std::int64_t index) { return cat("number ", index); };
  const Tensor* images = inputs.find("image");
  if (!images) return;
  report().pixelated = std::max(images->dim(2), images->dim(3)) <= kSmallSide;
  // The normalization of a file of tensors is unknown.
  report().picture = [images](std::int64_t index) {
    return picture_file(images->slice(index, index + 1), {});
  };
}

void ModelReporter::fail_not_finite(std::int64_t index) {
  throw DataError(cat("--report: the logits of ", report().name(index),
                      " are not finite, so that no class is the most probable one; evaluate a "
                      "checkpoint from before the training diverged"));
}

void ModelReporter::finish(std::int64_t skipped, Metrics& metrics) {
  report().skipped = skipped;
  const fs::path folder = options_.folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(cat("--report: cannot make the folder ", folder.string(), ": ", error.message()));
  write(folder, metrics);
  log_info(cat("report: ", (folder / "report.html").string()));
}

std::unique_ptr<ModelReporter> make_reporter(const ReportOptions& options,
                                             const ReportedModel& model) {
  if (dynamic_cast<const Multilabel*>(&model.task)) {
    return std::make_unique<LabelReporter>(options, model);
  }
  return std::make_unique<ClassReporter>(options, model);
}

}  // namespace dtn::app
