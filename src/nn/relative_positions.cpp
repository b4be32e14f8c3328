#include "dtn/nn/relative_positions.h"

#include <cmath>

#include "dtn/nn/parameters.h"
#include "ops/dispatch.h"

namespace dtn {

void init_local_positions(Tensor& value, std::uint64_t seed, const std::string& name) {
  std::int64_t heads = value.dim(0);
  fill_truncated_normal(value, 0.02, seed, name);
  auto k = static_cast<std::int64_t>(std::sqrt(static_cast<double>(heads)));
  double centre = static_cast<double>(k - 1) / 2;
  dispatch_real(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        T* row = value.data<T>() + (k * j + i) * 3;
        row[0] = static_cast<T>(2 * (static_cast<double>(j) - centre));
        row[1] = static_cast<T>(2 * (static_cast<double>(i) - centre));
        row[2] = T(-1);
      }
    }
  });
}

}  // namespace dtn
