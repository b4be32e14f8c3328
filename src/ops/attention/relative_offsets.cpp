#include "ops/attention/relative_offsets.h"

#include "ops/host_constant.h"

namespace dtn::ops {

Tensor relative_offsets(std::int64_t grid_h, std::int64_t grid_w, DType dtype, Device device,
                        int sign) {
  const std::int64_t tokens = grid_h * grid_w;
  return host_constant({tokens * tokens, 3}, dtype, device, [=](std::int64_t element) {
    const std::int64_t i = element / 3 / tokens, j = element / 3 % tokens;
    const auto dx = static_cast<double>(sign * (j % grid_w - i % grid_w));
    const auto dy = static_cast<double>(sign * (j / grid_w - i / grid_w));
    return element % 3 == 0 ? dx : element % 3 == 1 ? dy : dx * dx + dy * dy;
  });
}

}  // namespace dtn::ops
