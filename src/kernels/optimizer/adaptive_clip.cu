// Adaptive gradient clipping with one block per unit: rows of a few hundred to a few thousand
// elements, and whole small tensors. A gradient that is not clipped is read once and not written.
#include "kernels/cuda/reduce.cuh"
#include "kernels/optimizer/adaptive_clip.h"
#include "kernels/optimizer/optimizer_factors.h"

namespace dtn {
namespace {

constexpr int kUnitThreads = 128;

struct UnitShared {
  double scratch[2][kUnitThreads / cuda::kWarpSize];
  float factor;
};

__global__ void __launch_bounds__(kUnitThreads) adaptive_clip_kernel(AdaptiveClip args) {
  DTN_SHARED(UnitShared, shared);
  const GradientUnit unit = args.units[blockIdx.x];
  double weights = 0, gradients = 0;
  for (std::int64_t i = unit.begin + threadIdx.x; i < unit.end; i += kUnitThreads) {
    const double w = args.param[i], g = args.grad[i];
    weights += w * w;
    gradients += g * g;
  }
  weights = cuda::block_sum_once(weights, shared->scratch[0]);
  gradients = cuda::block_sum_once(gradients, shared->scratch[1]);
  if (threadIdx.x == 0) shared->factor = adaptive_factor(args, weights, gradients);
  __syncthreads();
  const float factor = shared->factor;
  if (factor == 1) return;
  for (std::int64_t i = unit.begin + threadIdx.x; i < unit.end; i += kUnitThreads) {
    args.grad[i] *= factor;
  }
}

}  // namespace

void run(CudaQueue& queue, const AdaptiveClip& args) {
  if (args.unit_count == 0) return;
  launch(queue, {"adaptive_clip", {args.unit_count}}, adaptive_clip_kernel,
         {blocks_for(args.unit_count, 1), kUnitThreads, sizeof(UnitShared)}, args);
}

}  // namespace dtn
