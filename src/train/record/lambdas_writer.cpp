#include "train/record/lambdas_writer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dtn/core/check.h"

namespace dtn {
namespace {

std::optional<std::vector<double>> lambdas_at(ParameterStore& store, const std::string& name) {
  const Parameter* logits = store.find(name);
  if (!logits) return std::nullopt;
  const Tensor values = Variable(logits->variable.value().to(kCpu)).value_as(DType::kFloat64);
  std::vector<double> lambdas;
  for (const double logit : values.values<double>()) lambdas.push_back(1 / (1 + std::exp(-logit)));
  return lambdas;
}

SiteLambdas lambdas_of(const std::vector<LayerInfo>& layers, ParameterStore& store,
                       const std::string& parameter) {
  SiteLambdas sites(layers.size());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto& norms = layers[l].norms;
    for (std::size_t s = 0; s < std::min(norms.size(), sites[l].size()); ++s) {
      sites[l][s] = lambdas_at(store, norms[s].path + "." + parameter);
    }
  }
  return sites;
}

std::vector<LayerInfo> layers_to_log(const Backbone* backbone) {
  if (backbone) {
    if (auto layers = backbone->layers(); !layers.empty()) return layers;
  }
  throw ConfigError(
      "train.log_norms: the layers of this model cannot be observed; set train.log_norms to null");
}

}  // namespace

SiteLambdas mean_lambdas(const std::vector<LayerInfo>& layers, ParameterStore& store) {
  return lambdas_of(layers, store, "mean_norm_weight");
}

SiteLambdas var_lambdas(const std::vector<LayerInfo>& layers, ParameterStore& store) {
  return lambdas_of(layers, store, "var_norm_weight");
}

// A lambda that is not finite, in a run that diverges, becomes null, as in metrics.jsonl.
nlohmann::ordered_json as_json(const SiteLambdas& sites) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& layer : sites) {
    nlohmann::ordered_json of_layer = nlohmann::ordered_json::array();
    bool any = false;
    for (const auto& site : layer) {
      of_layer.push_back(site ? nlohmann::ordered_json(*site) : nlohmann::ordered_json());
      any = any || site;
    }
    json.push_back(any ? of_layer : nlohmann::ordered_json());
  }
  return json;
}

LambdasWriter::LambdasWriter(const std::filesystem::path& run, const Backbone* backbone,
                             ParameterStore& parameters, std::optional<std::int64_t> resumed_at)
    : layers_(layers_to_log(backbone)),
      parameters_(parameters),
      lines_(JsonLinesWriter::open_for_resume(run / "norms.jsonl", resumed_at.value_or(-1))) {}

void LambdasWriter::write(std::int64_t step, double epoch) {
  const nlohmann::ordered_json line = {{"step", step},
                                       {"epoch", epoch},
                                       {"lambda_mean", as_json(mean_lambdas(layers_, parameters_))},
                                       {"lambda_var", as_json(var_lambdas(layers_, parameters_))}};
  lines_.write(line.dump());
}

}  // namespace dtn
