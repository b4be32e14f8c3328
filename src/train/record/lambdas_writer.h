// Lambdas of Dynamic Token Normalization (the weights of a token's own statistics), and
// norms.jsonl, where a run stores them over time (train.log_norms).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/parameters.h"
#include "io/json_lines.h"

namespace dtn {

// [L][2]: the lambdas of each head at both normalizers of a layer, sigmoid(mean_norm_weight) or
// sigmoid(var_norm_weight); unset if the normalizer does not have that parameter.
using SiteLambdas = std::vector<std::array<std::optional<std::vector<double>>, 2>>;
SiteLambdas mean_lambdas(const std::vector<LayerInfo>&, ParameterStore&);
SiteLambdas var_lambdas(const std::vector<LayerInfo>&, ParameterStore&);
// Writes null for a site without lambdas, and for a layer whose sites have no lambdas.
nlohmann::ordered_json as_json(const SiteLambdas&);

// norms.jsonl in a run folder: {"step", "epoch", "lambda_mean": [L][2][H], "lambda_var"}, null for
// missing lambdas.
class LambdasWriter {
 public:
  // Drops lines after `resumed_at`, the step at which a run resumes. Throws ConfigError for a model
  // whose backbone lists no layers.
  LambdasWriter(const std::filesystem::path& run, const Backbone* backbone, ParameterStore&,
                std::optional<std::int64_t> resumed_at);

  void write(std::int64_t step, double epoch);
  // Makes the written lines durable.
  void sync() { lines_.sync(); }

 private:
  std::vector<LayerInfo> layers_;
  ParameterStore& parameters_;
  JsonLinesWriter lines_;
};

}  // namespace dtn
