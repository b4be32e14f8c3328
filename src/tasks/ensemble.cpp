#include "tasks/ensemble.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/format.h"
#include "data/sample/normalization.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

// Returns log(sum over k of exp(values[k])), without overflow.
double log_sum_exp(std::span<const double> values) {
  const double largest = *std::ranges::max_element(values);
  double sum = 0;
  for (double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

// Data sets have usual values where a config has none.
bool same_normalization(const ExperimentConfig& a, const ExperimentConfig& b,
                        const DatasetRegistry& datasets) {
  const int channels = a.model.channels;
  const auto is_pixels = [&](const ExperimentConfig& c) {
    return c.model.max_length == 0 && (channels == 1 || channels == 3) &&
           c.data.dataset != "tensors";
  };
  if (!is_pixels(a) || !is_pixels(b)) return true;  // prepared elsewhere
  const Normalization first = resolve_normalization(a.data, channels, datasets);
  const Normalization other = resolve_normalization(b.data, channels, datasets);
  return first.mean == other.mean && first.std == other.std;
}

}  // namespace

Tensor log_mean_probabilities(const std::vector<Tensor>& logits) {
  DTN_CHECK(!logits.empty(), "the mean of no models");
  const std::size_t members = logits.size();
  const std::int64_t rows = logits.front().dim(0), classes = logits.front().dim(1);
  Tensor result = Tensor::empty({rows, classes}, DType::kFloat32);
  std::vector<double> row(static_cast<std::size_t>(classes)), totals(members), logs(members);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::size_t m = 0; m < members; ++m) {
      DTN_CHECK(logits[m].shape() == result.shape(), "a mean of logits of other shapes");
      std::copy_n(logits[m].data<float>() + r * classes, classes, row.begin());
      totals[m] = log_sum_exp(row);
    }
    for (std::int64_t k = 0; k < classes; ++k) {
      for (std::size_t m = 0; m < members; ++m) {
        logs[m] = static_cast<double>(logits[m].data<float>()[r * classes + k]) - totals[m];
      }
      const double mean = log_sum_exp(logs) - std::log(static_cast<double>(members));
      result.data<float>()[r * classes + k] = static_cast<float>(mean);
    }
  }
  return result;
}

void check_joins_ensemble(const ExperimentConfig& first, const ExperimentConfig& other,
                          const std::string& named, const DatasetRegistry& datasets) {
  if (other.task != "classify") {
    throw ConfigError(cat(named, ": its task is ", other.task, "; an ensemble is of classifiers"));
  }
  ExperimentConfig same = first;
  same.model.num_classes = other.model.num_classes;
  same.model.image_size = other.model.image_size;
  same.model.channels = other.model.channels;
  same.model.max_length = other.model.max_length;
  same.model.vocabulary = other.model.vocabulary;
  same.data.crop_pct = other.data.crop_pct;
  same.data.interpolation = other.data.interpolation;
  same.data.resample = other.data.resample;
  same.data.exif = other.data.exif;
  const std::vector<std::string> differences = config_differences(first, same);
  constexpr const char* kRemedy = "; --set gives all the same value";
  if (!differences.empty()) {
    throw ConfigError(cat(named, ": the models of an ensemble see the same inputs, but its ",
                          differences.front(), " in the first", kRemedy));
  }
  if (same_normalization(first, other, datasets)) return;
  throw ConfigError(cat(named,
                        ": the models of an ensemble see the same inputs, but data.mean or "
                        "data.std is another than in the first",
                        kRemedy));
}

void warn_of_other_split(const ExperimentConfig& first, const ExperimentConfig& other,
                         const std::string& named) {
  const std::optional<double>&share = first.data.split, &others = other.data.split;
  if (!share || (others == share && other.seed == first.seed)) return;
  const auto text = [](const ExperimentConfig& config) {
    return config.data.split ? cat("data.split ", *config.data.split, " with seed ", config.seed)
                             : std::string("no data.split");
  };
  log_warn(cat(named, ": trained with ", text(other), ", and the first model with ", text(first),
               ", so it has learned from images that are evaluated here, and its figures are too "
               "good; evaluate other images (--set data.split=null --set data.val=...)"));
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
