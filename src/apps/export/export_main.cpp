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

int run_export(const ExportCommand& options, const Registries& registries) {
  const fs::path file = options.weights.file();
  const TensorFile weights = read_safetensors(file);
  const ExperimentConfig config = options.weights.config_of(weights, registries.schemas());
  const std::unique_ptr<Task> task = make_task({config, kCpu, registries});
  auto* classify = dynamic_cast<Classify*>(task.get());
  if (!classify) {
    throw ConfigError(
        cat("dtn-export needs a classifier; the task of this model is ", config.task));
  }
  for (const std::string& note : task->load_weights(file.string(), WeightsUse::kEvaluation))
    log_info(note);
  onnx::Graph graph = onnx::graph_of(classify->model(), options.opset);
  add_notes(graph, config, weights.metadata, registries);
  graph.write(options.output, config.name);
  const ModelConfig& m = config.model;
  log_info(cat(options.output, ": ", task->description(), "; images [N, ", m.channels, ", ",
               m.image_size.height, ", ", m.image_size.width, "] -> logits [N, ",
               classify->model().outputs(), "], opset ", options.opset, ", ",
               bytes_text(static_cast<double>(fs::file_size(options.output)))));
  return kExitDone;
}

}  // namespace

int export_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Writes a trained model as an ONNX file for other programs: input 'images' [N,C,H,W] "
      "float32, already normalised, for any N; output 'logits' [N,K].",
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
