#include "apps/eval/class_reporter.h"

#include <algorithm>
#include <memory>
#include <system_error>

#include "core/format.h"
#include "data/feed/image_samples.h"
#include "data/feed/single_sample.h"
#include "data/feed/token_samples.h"
#include "data/sample/preview.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/atomic_file.h"
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

ClassReporter::ClassReporter(const ReportOptions& options, const ExperimentConfig& config,
                             const Classify& task, const std::string& weights,
                             const Registries& registries)
    : options_(options), config_(config), task_(task), registries_(registries) {
  if (config.model.num_classes == 0) {
    throw ConfigError("--report needs a model with a classification head; model.num_classes is 0");
  }
  check_output_folder(options.folder);
  report_.title = cat("Where ", config.name, " is wrong");
  report_.lead.push_back(cat("Weights: ", weights, "."));
}

void ClassReporter::name_classes(std::vector<std::string> names) {
  const auto count = static_cast<std::size_t>(config_.model.num_classes);
  if (names.empty() && task_.classes()) names = task_.classes()->names;
  put_into_words(names);
  if (names.empty() && count == imagenet_class_words().size()) names = imagenet_class_words();
  for (std::size_t c = names.size(); c < count; ++c) names.push_back(cat("class ", c));
  report_.classes = std::move(names);
}

void ClassReporter::take_source(const SampleSource& source) {
  const Dataset* dataset = dataset_of(source);
  if (dataset && !dataset->has_labels()) {
    throw DataError(
        cat(source.description(), ": --report needs labels, and the samples have none"));
  }
  report_.noun = source.noun();
  report_.lead.push_back(cat("Data: ", source.description(), "."));
  name_classes(source.class_names());
  place_ = [&source](std::int64_t index) { return source.sample_name(index); };
  report_.name = [&source, dataset](std::int64_t index) {
    return dataset ? dataset->item_name(index) : source.sample_name(index);
  };
  const auto is_image = [](const FieldSpec& field) { return field.name == "image"; };
  if (std::ranges::none_of(source.device_fields(), is_image)) return;
  const ImageSize& size = config_.model.image_size;
  report_.pixelated = std::max(size.height, size.width) <= kSmallSide;
  const Normalization normalization = shown_normalization(source, config_, registries_.datasets);
  report_.picture = [&source, normalization](std::int64_t index) -> std::string {
    try {
      return picture_file(single_sample(source, index, 0).at("image"), normalization);
    } catch (const DataError&) {  // the file has changed since it was evaluated
      return "";
    }
  };
}

void ClassReporter::take_inputs(const Fields& inputs, const std::string& file) {
  if (!inputs.has("label")) {
    throw DataError(cat(file, ": --report needs the tensor 'labels' [N] int64"));
  }
  if (config_.model.max_length > 0) report_.noun = "sequences";
  report_.lead.push_back(cat("Data: ", file, "."));
  name_classes({});
  place_ = [](std::int64_t index) { return index; };
  report_.name = [](std::int64_t index) { return cat("number ", index); };
  const Tensor* images = inputs.find("image");
  if (!images) return;
  report_.pixelated = std::max(images->dim(2), images->dim(3)) <= kSmallSide;
  // The normalization of a file of tensors is unknown.
  report_.picture = [images](std::int64_t index) {
    return picture_file(images->slice(index, index + 1), {});
  };
}

void ClassReporter::add(std::span<const std::int64_t> indices, const Tensor& labels,
                        const Tensor& logits) {
  const auto classes = static_cast<std::size_t>(logits.dim(1));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::span<const float> row(logits.data<float>() + i * classes, classes);
    const auto sample = classified(indices[i], row, labels.data<std::int64_t>()[i]);
    if (!sample) {
      throw DataError(cat("--report: the logits of ", report_.name(indices[i]),
                          " are not finite, so that no class is the most probable one; evaluate a "
                          "checkpoint from before the training diverged"));
    }
    report_.samples.push_back(*sample);
  }
}

void ClassReporter::finish(std::int64_t skipped, Metrics& metrics) {
  report_.skipped = skipped;
  report_.figures = figures_of(report_.samples, std::ssize(report_.classes));
  const fs::path folder = options_.folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(cat("--report: cannot make the folder ", folder.string(), ": ", error.message()));
  write_report_json(folder / "report.json", report_, place_);
  if (options_.csv) write_report_tables(folder, report_, place_);
  write_file_atomic(folder / "report.html", class_report_page(report_));
  log_info(cat("report: ", (folder / "report.html").string()));
  const ClassificationFigures& figures = report_.figures;
  metrics.values.push_back({"macro_f1", figures.macro_f1});
  metrics.values.push_back({"ece", figures.ece});
  metrics.text += format("  macro F1 %.4f  ECE %.4f", figures.macro_f1, figures.ece);
}

}  // namespace dtn::app
