// What is inside a model, as numbers: norms, attention, representations and gradients layer by
// layer. docs/analyze.md says what each key of the JSON is.
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

// An input as people see it.
struct Preview {
  std::int64_t height, width;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

struct Analysis {
  nlohmann::ordered_json json;
  std::vector<Preview> previews;  // of the first inputs, at most eight
};

// One model to look into.
struct AnalysisSubject {
  std::string name;    // for people
  std::string source;  // where it comes from, for people
  ExperimentConfig config;
  std::optional<std::filesystem::path> weights;  // unset: as the config and its seed start it
  std::optional<std::int64_t> step;
  std::optional<std::filesystem::path> history;  // a norms.jsonl, which need not exist
};

struct AnalysisOptions {
  std::vector<AnalysisSubject> subjects;
  std::string inputs;        // safetensors; empty: the evaluation split of the first's data
  std::int64_t images = 64;  // of the split
  std::optional<std::int64_t> token;  // whose row of P is shown; unset: the one in the middle
};

// Computes in float32 on the CPU, and sums in float64; the numbers depend on the options alone, not
// on the number of threads, and memory does not grow with the number of images. Throws ConfigError
// for models that cannot be looked into or do not take the same inputs, DataError for inputs that do
// not fit.
Analysis analyze(const AnalysisOptions&, const Registries& registries = standard_registries());

}  // namespace dtn
