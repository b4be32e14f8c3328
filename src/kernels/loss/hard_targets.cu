// Class of the largest logit, one block per row; see hard_targets.h.
#include "kernels/cuda/reduce.cuh"
#include "kernels/loss/hard_targets.h"

namespace dtn {
namespace {

constexpr int kHardThreads = 128;

__global__ void __launch_bounds__(kHardThreads)
    hard_targets_kernel(const float* logits, float* targets, std::int64_t classes) {
  DTN_SHARED(float, scratch);
  const float* z = logits + blockIdx.x * classes;
  float* t = targets + blockIdx.x * classes;
  float largest = -INFINITY;
  for (std::int64_t k = threadIdx.x; k < classes; k += kHardThreads) {
    largest = cuda::max_or_nan(largest, z[k]);
  }
  largest = cuda::block_max(largest, scratch);
  // The first class has the largest negated number. These are exact in float32 for up to 16 million
  // classes.
  float first = -INFINITY;
  for (std::int64_t k = threadIdx.x; k < classes; k += kHardThreads) {
    if (z[k] == largest) first = cuda::max_or_nan(first, -static_cast<float>(k));
  }
  first = cuda::block_max(first, scratch);
  for (std::int64_t k = threadIdx.x; k < classes; k += kHardThreads) {
    const float hard = -static_cast<float>(k) == first ? 1.0f : 0.0f;
    t[k] = largest == largest ? hard : largest;
  }
}

}  // namespace

void run(CudaQueue& queue, const HardTargets& args) {
  DTN_CHECK(args.dtype == DType::kFloat32, "hard_targets: ", name_of(args.dtype),
            " is not computed on CUDA devices; float32 is");
  DTN_CHECK(args.classes < (1 << 24), "hard_targets: ", args.classes,
            " classes; CUDA devices take fewer than 2^24");
  if (args.rows == 0) return;
  launch(queue, {"hard_targets", {args.rows, args.classes}}, hard_targets_kernel,
         {blocks_for(args.rows, 1), kHardThreads, kHardThreads / cuda::kWarpSize * sizeof(float)},
         static_cast<const float*>(args.logits), static_cast<float*>(args.targets), args.classes);
}

}  // namespace dtn
