#include "dtn/nn/sinusoids.h"

#include <cmath>

#include "ops/dispatch.h"

namespace dtn {

void fill_sinusoids(Tensor& table) {
  const std::int64_t rows = table.dim(1), channels = table.dim(2);
  dispatch_real(table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = table.data<T>();
    for (std::int64_t p = 0; p < rows; ++p) {
      for (std::int64_t j = 0; j < channels; ++j) {
        const std::int64_t even = j - j % 2;
        const double exponent = static_cast<double>(even) / static_cast<double>(channels);
        const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
        to[p * channels + j] = static_cast<T>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
    }
  });
}

}  // namespace dtn
