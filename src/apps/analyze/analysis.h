// Analysis of a model in numbers: norms, attention, representations and gradients, layer by layer.
// docs/analyze.md explains each key of the JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// An input as an image for people.
struct Preview {
  std::int64_t height, width;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

struct Analysis {
  nlohmann::ordered_json json;
  std::vector<Preview> previews;  // the first inputs, at most eight
};

// One model to analyze.
struct AnalysisSubject {
  std::string name;    // for people
  std::string source;  // origin of the model, for people
  ExperimentConfig config;
  std::optional<std::filesystem::path> weights;  // unset: initial weights from the config's seed
  std::optional<std::int64_t> step;
  std::optional<std::filesystem::path> history;  // a norms.jsonl, which need not exist
  // Index of the subject of which this one is the state before training.
  std::optional<std::size_t> before_training_of = {};
};

struct AnalysisOptions {
  std::vector<AnalysisSubject> subjects;
  std::string inputs;        // safetensors; empty: evaluation split of the first subject's data
  std::int64_t images = 64;  // number of images from the split, drawn evenly over its classes
  std::uint64_t seed = 0;    // of that draw
  std::optional<std::int64_t> token;  // token whose row of P is shown; unset: the center token
};

// Computes in float32 on the CPU, and sums in float64. The numbers depend on the options alone, not
// on the number of threads, and memory does not grow with the number of images. Throws ConfigError
// for models that cannot be analyzed or do not take the same inputs, DataError for inputs that do
// not fit.
Analysis analyze(const AnalysisOptions&, const Registries& registries = standard_registries());

}  // namespace dtn
