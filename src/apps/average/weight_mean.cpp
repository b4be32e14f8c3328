#include "apps/average/weight_mean.h"

#include "dtn/core/check.h"

namespace dtn::app {

void WeightMean::add(const Tensor& weights, double share) {
  const auto count = static_cast<std::size_t>(weights.numel());
  if (sum_.empty()) sum_.resize(count);
  DTN_CHECK(sum_.size() == count, "a mean of models with ", sum_.size(), " and ", count,
            " weights");
  DTN_CHECK(share > 0, "a model has a share of ", share, ", but shares are positive");
  const float* values = weights.data<float>();
  for (std::size_t i = 0; i < count; ++i) sum_[i] += share * static_cast<double>(values[i]);
  shares_ += share;
}

Tensor WeightMean::result() const {
  DTN_CHECK(shares_ > 0, "the mean of no models");
  const auto count = static_cast<std::int64_t>(sum_.size());
  Tensor mean = Tensor::empty({count}, DType::kFloat32);
  float* values = mean.data<float>();
  for (std::size_t i = 0; i < sum_.size(); ++i) values[i] = static_cast<float>(sum_[i] / shares_);
  return mean;
}

Tensor WeightMean::with(const Tensor& weights, double share) const {
  WeightMean more = *this;
  more.add(weights, share);
  return more.result();
}

}  // namespace dtn::app
