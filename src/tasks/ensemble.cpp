#include "tasks/ensemble.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/format.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// Adds the probabilities of a row of logits to `sum`.
void add_softmax(const float* logits, std::int64_t classes, double* sum) {
  const double largest = *std::max_element(logits, logits + classes);
  double total = 0;
  for (std::int64_t k = 0; k < classes; ++k) total += std::exp(logits[k] - largest);
  for (std::int64_t k = 0; k < classes; ++k) sum[k] += std::exp(logits[k] - largest) / total;
}

}  // namespace

Tensor log_mean_probabilities(const std::vector<Tensor>& logits) {
  DTN_CHECK(!logits.empty(), "the mean of no models");
  const std::int64_t rows = logits.front().dim(0), classes = logits.front().dim(1);
  Tensor result = Tensor::empty({rows, classes}, DType::kFloat32);
  std::vector<double> sum(static_cast<std::size_t>(classes));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::ranges::fill(sum, 0.0);
    for (const Tensor& each : logits) {
      DTN_CHECK(each.shape() == result.shape(), "a mean of logits of other shapes");
      add_softmax(each.data<float>() + r * classes, classes, sum.data());
    }
    float* to = result.data<float>() + r * classes;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double mean = sum[static_cast<std::size_t>(k)] / static_cast<double>(logits.size());
      to[k] = static_cast<float>(std::log(mean));
    }
  }
  return result;
}

void check_joins_ensemble(const ExperimentConfig& first, const ExperimentConfig& other,
                          const std::string& named) {
  if (other.task != "classify") {
    throw ConfigError(cat(named, ": its task is ", other.task, "; an ensemble is of classifiers"));
  }
  ExperimentConfig same = first;
  same.model.num_classes = other.model.num_classes;
  same.model.image_size = other.model.image_size;
  same.model.channels = other.model.channels;
  same.data.mean = other.data.mean;
  same.data.std = other.data.std;
  same.data.crop_pct = other.data.crop_pct;
  same.data.interpolation = other.data.interpolation;
  same.data.resample = other.data.resample;
  const std::vector<std::string> differences = config_differences(first, same);
  if (differences.empty()) return;
  throw ConfigError(cat(named, ": the models of an ensemble see the same images, but its ",
                        differences.front(), " in the first; --set gives all the same value"));
}

Ensemble::Ensemble(const TaskSetup& setup, std::vector<std::unique_ptr<Classify>> others)
    : Classify(setup), others_(std::move(others)) {}

Fields Ensemble::outputs(Context& ctx, const Fields& batch) {
  std::vector<Tensor> logits{Classify::outputs(ctx, batch).at("logits").to(kCpu)};
  for (const auto& other : others_)
    logits.push_back(other->outputs(ctx, batch).at("logits").to(kCpu));
  return Fields{{"logits", log_mean_probabilities(logits)}};
}

std::vector<Named<ParameterStore*>> Ensemble::stores() {
  std::vector<Named<ParameterStore*>> all = Classify::stores();
  for (std::size_t i = 0; i < others_.size(); ++i) {
    all.push_back({cat("other", i + 1), others_[i]->stores().front().value});
  }
  return all;
}

std::string Ensemble::description() const {
  return cat("the mean of ", counted(others_.size() + 1, "models"));
}

}  // namespace dtn
