// Features of noise levels; see timestep_features.h.
#include "kernels/pointwise/timestep_features.h"

#include <cmath>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const TimestepFeatures& args) {
  const std::int64_t n = args.frequencies;
  for_accumulator_dtype("timestep_features", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(args.batch, [&](std::int64_t b) {
      const auto t = static_cast<double>(args.timesteps[b]);
      T* y = static_cast<T*>(args.y) + b * 2 * n;
      for (std::int64_t k = 0; k < n; ++k) {
        const double w = std::pow(10000.0, -static_cast<double>(k) / static_cast<double>(n));
        y[k] = static_cast<T>(std::cos(t * w));
        y[n + k] = static_cast<T>(std::sin(t * w));
      }
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(TimestepFeatures)
