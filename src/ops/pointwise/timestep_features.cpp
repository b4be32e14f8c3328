#include "ops/pointwise/timestep_features.h"

#include "kernels/pointwise/timestep_features.h"

namespace dtn::ops {

Tensor timestep_features(const Tensor& timesteps, std::int64_t frequencies, DType dtype) {
  DTN_CHECK(timesteps.rank() == 1 && timesteps.dtype() == DType::kInt64, "timesteps are ",
            name_of(timesteps.dtype()), " ", to_string(timesteps.shape()), ", not int64 [B]");
  const std::int64_t batch = timesteps.dim(0);
  Tensor y = Tensor::empty({batch, 2 * frequencies}, dtype, timesteps.device());
  run_on(y.device(), TimestepFeatures{dtype, batch, frequencies,
                                      static_cast<const std::int64_t*>(timesteps.raw()), y.raw()});
  return y;
}

}  // namespace dtn::ops
