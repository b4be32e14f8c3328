#include "tasks/diffusion/schedule_table.h"

#include <cmath>
#include <cstring>

#include "dtn/ops/diffusion.h"
#include "kernels/loss/diffusion_terms.h"

namespace dtn {

Tensor schedule_table(const DiffusionProcess& process, Device device) {
  Tensor table = Tensor::empty({process.size(), ops::kScheduleColumns}, DType::kFloat64);
  std::byte* row = static_cast<std::byte*>(table.raw());
  for (const DiffusionProcess::Step& step : process.steps()) {
    DiffusionStep constants{};
    constants.signal = std::sqrt(step.alpha_bar);
    constants.noise = std::sqrt(1 - step.alpha_bar);
    constants.log_range = std::log(step.beta) - step.posterior_log_variance;
    constants.log_variance = step.posterior_log_variance;
    constants.gap = step.beta / (constants.noise * std::sqrt(1 - step.beta));
    const bool first = step.posterior_variance == 0;
    constants.gap_weight = first ? 0 : constants.gap * constants.gap / step.posterior_variance;
    std::memcpy(row, &constants, sizeof constants);
    row += sizeof constants;
  }
  return table.to(device);
}

}  // namespace dtn
