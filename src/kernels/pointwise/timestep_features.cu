// Features of noise levels, one thread per pair of cosine and sine; see timestep_features.h. A step
// has a few thousand of them, so float64 costs nothing.
#include "dtn/core/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/pointwise/timestep_features.h"

namespace dtn {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) timestep_features_kernel(TimestepFeatures args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t n = args.frequencies;
  if (i >= args.batch * n) return;
  const std::int64_t b = i / n, k = i % n;
  const double w = pow(10000.0, -static_cast<double>(k) / static_cast<double>(n));
  const double phase = static_cast<double>(args.timesteps[b]) * w;
  float* y = static_cast<float*>(args.y) + b * 2 * n;
  y[k] = static_cast<float>(cos(phase));
  y[n + k] = static_cast<float>(sin(phase));
}

}  // namespace

void run(CudaQueue& queue, const TimestepFeatures& args) {
  DTN_CHECK(args.dtype == DType::kFloat32,
            "timestep_features: a CUDA device computes float32, not ", name_of(args.dtype));
  if (args.batch == 0) return;
  launch(queue, {"timestep_features", {args.batch, args.frequencies}}, timestep_features_kernel,
         {blocks_for(args.batch * args.frequencies, kThreads), kThreads}, args);
}

}  // namespace dtn
