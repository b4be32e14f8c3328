#include "dtn/app/export_main.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "apps/export/hub_folder.h"
#include "apps/export/onnx_vit.h"
#include "config/document.h"
#include "core/format.h"
#include "data/sample/transforms.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/classify.h"
#include "io/atomic_file.h"
#include "io/output_folder.h"
#include "tasks/class_names.h"
#include "tasks/frozen/frozen_features.h"
#include "tasks/model_text.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct ExportCommand {
  WeightsOptions weights;
  std::string output, hub;
  int opset = onnx::kMinOpset;
};

std::string joined(const std::vector<float>& values) {
  return config::join(values, " ", [](float v) { return format("%.7g", static_cast<double>(v)); });
}

// Adds the preprocessing metadata and the class names.
void add_notes(onnx::Graph& graph, const ExperimentConfig& config, const StringMap& metadata,
               const Registries& registries) {
  const Normalization normalization = exported_normalization(config, registries.datasets);
  const bool bicubic = config.data.interpolation == Interpolation::kBicubic;
  graph.note("mean", joined(normalization.mean));
  graph.note("std", joined(normalization.std));
  graph.note("crop_pct", format("%g", config.data.crop_pct));
  graph.note("interpolation", bicubic ? "bicubic" : "bilinear");
  const std::vector<std::string> names = class_words(metadata, config.model.num_classes);
  if (!names.empty()) graph.note(kClassNamesKey, as_json(names));
}

// Writes the folder of --hub.
void write_hub_folder(const ExportCommand& options, Classifier& model,
                      const ExperimentConfig& config, const TensorFile& weights,
                      const Registries& registries) {
  const fs::path folder = options.hub;
  const std::vector<std::string> names = class_words(weights.metadata, config.model.num_classes);
  const std::string json = hub_config(config, names, registries.datasets);
  StringMap metadata{{"format", "pt"}, {"config", to_yaml(config)}};
  if (const auto classes = weights.metadata.find(kClassNamesKey);
      classes != weights.metadata.end()) {
    metadata.insert(*classes);
  }
  check_output_folder(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(cat("--hub ", folder.string(), ": ", error.message()));
  write_safetensors(folder / "model.safetensors", named_values(model.parameters()), metadata);
  write_file_atomic(folder / "config.json", json);
  log_info(cat(folder.string(), ": model.safetensors, ",
               bytes_text(static_cast<double>(fs::file_size(folder / "model.safetensors"))),
               ", and config.json; timm.create_model(\"local-dir:", folder.string(),
               "\", pretrained=True) loads them"));
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

// Writes what the command line asks for.
void write_model(const ExportCommand& options, Classifier& model, const std::string& output,
                 const ExperimentConfig& config, const TensorFile& weights,
                 const Registries& registries) {
  if (!options.hub.empty()) write_hub_folder(options, model, config, weights, registries);
  if (!options.output.empty()) write_graph(options, model, output, config, weights, registries);
}

// Exports the features of a model that was trained without a classifier.
void export_features(const ExportCommand& options, ExperimentConfig config, const fs::path& file,
                     const TensorFile& weights, const Registries& registries) {
  config.model.num_classes = 0;
  FrozenFeatures features(config, kCpu, registries);
  for (const std::string& note : features.load(weights, file.string())) log_info(note);
  write_model(options, features.model(), "features", config, weights, registries);
}

int run_export(const ExportCommand& options, const Registries& registries) {
  if (options.output.empty() && options.hub.empty()) {
    throw ConfigError("name what to write: --output model.onnx, or --hub FOLDER");
  }
  const fs::path file = options.weights.trained_file(registries);
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
  write_model(options, classify->model(), "logits", config, weights, registries);
  return kExitDone;
}

}  // namespace

int export_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Writes a trained model for other programs: as an ONNX file with the input 'images' "
      "[N,C,H,W] "
      "float32, already normalised, for any N, and the output 'logits' [N,K], or 'features' [N,F] "
      "of a model that was trained without a classifier; or as a folder that timm loads.",
      "dtn-export"};
  ExportCommand options;
  options.weights.add_to(app, "export the moving average of the weights");
  app.add_option("--output", options.output, "ONNX file to write, such as model.onnx");
  app.add_option("--hub", options.hub,
                 "folder to write in the layout of the Hugging Face hub, for timm: "
                 "model.safetensors and config.json");
  add_defaulted(app, "--opset", options.opset, "version of the ONNX operator set")
      ->check(CLI::Range(onnx::kMinOpset, onnx::kMaxOpset));
  return run_program(app, argc, argv, Processes::kOne,
                     [&] { return run_export(options, registries); });
}

}  // namespace dtn::app
