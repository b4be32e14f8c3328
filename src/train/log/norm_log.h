// How Dynamic Token Normalization weighs a token's own statistics against those of other tokens, and
// norms.jsonl, where a run keeps how that changes (train.log_norms).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/parameters.h"
#include "io/json_lines.h"

namespace dtn {

// [L][2]: the lambdas of each head at both normalizers of a layer, sigmoid(mean_norm_weight) or
// sigmoid(var_norm_weight); unset where the normalizer has no such parameter.
using SiteLambdas = std::vector<std::array<std::optional<std::vector<double>>, 2>>;
SiteLambdas mean_lambdas(const std::vector<LayerInfo>&, ParameterStore&);
SiteLambdas var_lambdas(const std::vector<LayerInfo>&, ParameterStore&);
// Null for a site that has none, and for a layer whose sites have none.
nlohmann::ordered_json as_json(const SiteLambdas&);

// norms.jsonl in a run folder: {"step", "epoch", "lambda_mean": [L][2][H], "lambda_var"}, null
// where there is none.
class NormLog {
 public:
  // `resumed_at` as in RunLog: later lines are dropped. Throws ConfigError for a model without
  // layers that can be looked into.
  NormLog(const std::filesystem::path& run, const Backbone* backbone, ParameterStore&,
          std::optional<std::int64_t> resumed_at);

  void write(std::int64_t step, double epoch);
  // Makes what is written durable.
  void sync() { lines_.sync(); }

 private:
  std::vector<LayerInfo> layers_;
  ParameterStore& parameters_;
  JsonLinesWriter lines_;
};

}  // namespace dtn
