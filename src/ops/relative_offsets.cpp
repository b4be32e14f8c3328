#include "ops/relative_offsets.h"

#include "ops/dispatch.h"

namespace dtn::ops {

Tensor relative_offsets(std::int64_t grid_h, std::int64_t grid_w, DType dtype, int sign) {
  std::int64_t tokens = grid_h * grid_w;
  Tensor offsets = Tensor::empty({tokens * tokens, 3}, dtype);
  dispatch_real(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = offsets.data<T>();
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t j = 0; j < tokens; ++j, to += 3) {
        to[0] = static_cast<T>(sign * (j % grid_w - i % grid_w));
        to[1] = static_cast<T>(sign * (j / grid_w - i / grid_w));
        to[2] = to[0] * to[0] + to[1] * to[1];
      }
    }
  });
  return offsets;
}

}  // namespace dtn::ops
