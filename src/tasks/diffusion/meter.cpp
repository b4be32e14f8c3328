#include "tasks/diffusion/meter.h"

#include <algorithm>
#include <limits>

#include "core/format.h"
#include "dtn/core/fields.h"
#include "dtn/dist/communicator.h"

namespace dtn {

void DiffusionMeter::add(const Fields& batch, const Fields& outputs) {
  const Tensor& mse = outputs.at("mse");
  const Tensor* vb = learned_variance_ ? &outputs.at("vb") : nullptr;
  const Tensor* index = batch.find("index");
  for (std::int64_t i = 0; i < mse.numel(); ++i) {
    const auto next = static_cast<std::int64_t>(samples_.size());
    samples_.push_back({index ? index->data<std::int64_t>()[i] : next, mse.data<float>()[i],
                        vb ? vb->data<float>()[i] : 0});
  }
}

void DiffusionMeter::merge(Communicator& ranks) {
  if (ranks.is_single()) return;
  // Gathers the number of samples of each rank, then the values of each sample.
  constexpr std::int64_t kColumns = 3;
  const Tensor own_count = Tensor::full({1}, DType::kInt64, static_cast<double>(samples_.size()));
  const Tensor counts = ranks.all_gather(own_count);
  const std::int64_t most = std::ranges::max(counts.values<std::int64_t>());
  Tensor own = Tensor::zeros({most, kColumns}, DType::kFloat64);
  double* to = own.data<double>();
  for (const Sample& sample : samples_) {
    *to++ = static_cast<double>(sample.index);
    *to++ = sample.mse;
    *to++ = sample.vb;
  }
  const Tensor all = ranks.all_gather(own);
  samples_.clear();
  for (int r = 0; r < ranks.size(); ++r) {
    const double* from = all.data<double>() + r * most * kColumns;
    for (std::int64_t i = 0; i < counts.data<std::int64_t>()[r]; ++i, from += kColumns) {
      samples_.push_back({static_cast<std::int64_t>(from[0]), from[1], from[2]});
    }
  }
  std::ranges::stable_sort(samples_, {}, &Sample::index);
}

Metrics DiffusionMeter::result() const {
  const auto n = static_cast<double>(std::max<std::size_t>(samples_.size(), 1));
  double mse = 0, vb = 0;
  for (const Sample& sample : samples_) {
    mse += sample.mse / n;
    vb += sample.vb / n;
  }
  Metrics metrics{.values = {{"loss", mse + vb}, {"mse", mse}, {"vb", vb}},
                  .primary = "loss",
                  .higher_is_better = false,
                  .text = format("loss %.5f", mse + vb)};
  if (learned_variance_) {
    metrics.text += format("  mse %.5f  vb %.5f", mse, vb);
  } else {
    metrics.values.back().second = std::numeric_limits<double>::quiet_NaN();
  }
  return metrics;
}

}  // namespace dtn
