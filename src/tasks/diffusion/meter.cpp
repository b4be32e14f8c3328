#include "tasks/diffusion/meter.h"

#include <array>
#include <limits>

#include "core/format.h"
#include "dtn/core/fields.h"

namespace dtn {

void DiffusionMeter::add(const Fields& batch, const Fields& outputs) {
  const Tensor& mse = outputs.at("mse");
  const Tensor* vb = learned_variance_ ? &outputs.at("vb") : nullptr;
  const Tensor* index = batch.find("index");
  for (std::int64_t i = 0; i < mse.numel(); ++i) {
    samples_.add(index ? index->data<std::int64_t>()[i] : samples_.size(),
                 std::array<double, 2>{mse.data<float>()[i], vb ? vb->data<float>()[i] : 0});
  }
}

Metrics DiffusionMeter::result() const {
  const double mse = samples_.mean(0), vb = samples_.mean(1);
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
