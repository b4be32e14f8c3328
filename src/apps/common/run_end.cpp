#include "apps/common/run_end.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/format.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"

namespace dtn::app {

namespace fs = std::filesystem;

namespace {

// Options with which dtn-predict runs an image-to-image model on pictures; unset: it cannot.
std::optional<std::string> options_for_pictures(const ModelConfig& model) {
  for (const int channels : {model.channels, model.out_channels.value_or(model.channels)}) {
    if (channels != 1 && channels != 3) return std::nullopt;
  }
  std::string options;
  for (const FieldSpec& field : condition_fields(model)) {
    if (field.name == "style") {
      options += " --style 0";
    } else if (field.name == "style_image") {
      options += " --style-image STYLE_IMAGE";
    } else {
      return std::nullopt;
    }
  }
  return options;
}

}  // namespace

std::string shell_word(const std::string& path) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+,:@%";
  if (!path.empty() && path.find_first_not_of(kPlain) == path.npos) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string best_of_run(const fs::path& run) {
  std::ifstream file(run / "summary.json");
  const auto summary = nlohmann::ordered_json::parse(file, nullptr, false);
  if (!summary.is_object() || !summary.contains("best") || !summary["best"].is_object()) return "";
  const auto& best = summary["best"];
  if (!best.contains("step")) return "";
  std::string text;
  for (const auto& [name, value] : best.items()) {
    if (name == "step" || !value.is_number()) continue;
    const double figure = value.get<double>();
    text = name == "top1"   ? format("top-1 %.2f %%", figure)
           : name == "map"  ? format("mAP %.4f", figure)
           : name == "psnr" ? format("PSNR %.2f dB", figure)
                            : cat(name, format(" %.4g", figure));
  }
  return cat(text, text.empty() ? "at step " : " at step ", best["step"].dump(),
             best.value("weights", "") == "ema" ? ", of the averaged weights" : "");
}

std::vector<std::string> next_commands(const ExperimentConfig& config, const fs::path& run) {
  // With --ema, a command reads the weights whose figure the run has shown as its best.
  const bool by_average = config.train.ema && config.train.best == BestBy::kEma;
  const std::string folder = shell_word(run.string()), word = folder + (by_average ? " --ema" : "");
  const std::string& data = config.data.dataset;
  const bool classifies = config.task == "classify" || config.task == "multilabel";
  const bool has_images = data != "tensors" && data != "listops";
  if (config.task == "diffusion") {
    const char* images = config.model.num_classes > 0 ? " --classes 0" : " --count 16";
    return {cat("dtn-sample --checkpoint ", word, images, " --output samples.png"),
            cat("dtn-eval --checkpoint ", word)};
  }
  if (config.task == "translate") {
    std::vector<std::string> commands{cat("dtn-eval --checkpoint ", word, " --grid grid.png")};
    if (const auto options = options_for_pictures(config.model)) {
      commands.push_back(
          cat("dtn-predict --checkpoint ", word, *options, " --output pictures IMAGE..."));
    }
    return commands;
  }
  if (config.task == "dino" || config.task == "supcon") {
    return {cat("dtn-eval --checkpoint ", word, " --task knn"),
            cat("dtn-train --config CONFIG --set model.init_weights=", folder)};
  }
  if (config.task == "detect") {
    return {cat("dtn-eval --checkpoint ", word),
            cat("dtn-predict --checkpoint ", word, " --output drawn IMAGE...")};
  }
  std::vector<std::string> commands;
  if (classifies) {
    commands.push_back(
        cat("dtn-eval --checkpoint ", word, " --report ", shell_word((run / "errors").string())));
  }
  if (classifies && has_images) {
    commands.push_back(cat("dtn-predict --checkpoint ", word, " IMAGE..."));
  }
  if (classifies) {
    commands.push_back(cat("dtn-export --checkpoint ", word, " --output model.onnx"));
  }
  return commands;
}

std::string run_end_text(const fs::path& run, const std::vector<NamedFile>& files,
                         const std::vector<std::string>& commands) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += format("%-14s", (name + ":").c_str()) + value + "\n";
  };
  add("best", best_of_run(run));
  const fs::path best = run / "checkpoints/best", last = run / "checkpoints/last";
  add("checkpoint", (fs::exists(best) ? best : last).string());
  for (const NamedFile& file : files) {
    if (fs::exists(file.path)) add(file.name, file.path.string());
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    text += cat(i == 0 ? "\nNext: " : "      ", commands[i], "\n");
  }
  return text;
}

}  // namespace dtn::app
