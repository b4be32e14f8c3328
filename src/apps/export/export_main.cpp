#include "dtn/app/export_main.h"

#include <filesystem>
#include <memory>
#include <string>

#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "apps/export/onnx_vit.h"
#include "config/document.h"
#include "core/format.h"
#include "data/sample/transforms.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/tasks/classify.h"
#include "tasks/class_names.h"
#include "tasks/frozen/frozen_features.h"
#include "tasks/model_text.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct ExportCommand {
  WeightsOptions weights;
  std::string output;
  int opset = onnx::kMinOpset;
};

std::string joined(const std::vector<float>& values) {
  return config::join(values, " ", [](float v) { return format("%.7g", static_cast<double>(v)); });
}

// Adds the preprocessing metadata and the class names.
void add_notes(onnx::Graph& graph, const ExperimentConfig& config, const StringMap& metadata,
               const Registries& registries) {
  const Normalization normalization =
      resolve_normalization(config.data, config.model.channels, registries.datasets);
  const bool bicubic = config.data.interpolation == Interpolation::kBicubic;
  graph.note("mean", joined(normalization.mean));
  graph.note("std", joined(normalization.std));
  graph.note("crop_pct", format("%g", config.data.crop_pct));
  graph.note("interpolation", bicubic ? "bicubic" : "bilinear");
  const std::vector<std::string> names = class_words(metadata, config.model.num_classes);
  if (!names.empty()) graph.note(kClassNamesKey, as_json(names));
}

// Writes the graph of the model, with one output of this name.
void write_graph(const ExportCommand& options, Classifier& model, const std::string& output,
                 const ExperimentConfig& config, const TensorFile& weights,
                 const Registries& registries) {
  onnx::Graph graph = onnx::graph_of(model, options.opset, output);
  add_notes(graph, config, weights.metadata, registries);
  graph.write(options.output, config.name);
  const ModelConfig& m = config.model;
  const std::string note = model.note();
  log_info(cat(options.output, ": ", describe_backbone(m, model.family()), ", ",
               model.parameters().count(), " parameters", note.empty() ? "" : "; ", note,
               "; images [N, ", m.channels, ", ", m.image_size.height, ", ", m.image_size.width,
               "] -> ", output, " [N, ", model.outputs(), "], opset ", options.opset, ", ",
               bytes_text(static_cast<double>(fs::file_size(options.output)))));
}

// Exports the features of a model that was trained without a classifier.
void export_features(const ExportCommand& options, ExperimentConfig config, const fs::path& file,
                     const TensorFile& weights, const Registries& registries) {
  config.model.num_classes = 0;
  FrozenFeatures features(config, kCpu, registries);
  for (const std::string& note : features.load(weights, file.string())) log_info(note);
  write_graph(options, features.model(), "features", config, weights, registries);
}

int run_export(const ExportCommand& options, const Registries& registries) {
  const fs::path file = options.weights.trained_file(registries.tasks);
  const TensorFile weights = read_safetensors(file);
  const ExperimentConfig config = options.weights.config_of(weights, registries.schemas());
  if (registries.tasks.at(config.task).schema.features_only) {
    export_features(options, config, file, weights, registries);
    return kExitDone;
  }
  const std::unique_ptr<Task> task = make_task({config, kCpu, registries});
  auto* classify = dynamic_cast<Classify*>(task.get());
  if (!classify) {
    throw ConfigError(
        cat("dtn-export needs a classifier; the task of this model is ", config.task));
  }
  for (const std::string& note : task->load_weights(file.string(), WeightsUse::kEvaluation))
    log_info(note);
  write_graph(options, classify->model(), "logits", config, weights, registries);
  return kExitDone;
}

}  // namespace

int export_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Writes a trained model as an ONNX file for other programs: input 'images' [N,C,H,W] "
      "float32, already normalised, for any N; output 'logits' [N,K], or 'features' [N,F] of a "
      "model that was trained without a classifier.",
      "dtn-export"};
  ExportCommand options;
  options.weights.add_to(app, "export the moving average of the weights");
  app.add_option("--output", options.output, "file to write, such as model.onnx")->required();
  add_defaulted(app, "--opset", options.opset, "version of the ONNX operator set")
      ->check(CLI::Range(onnx::kMinOpset, onnx::kMaxOpset));
  return run_program(app, argc, argv, Processes::kOne,
                     [&] { return run_export(options, registries); });
}

}  // namespace dtn::app
