// Combines the moments of several ranks, one thread per channel; see combine_moments.h.
#include "kernels/cuda/launch.cuh"
#include "kernels/norm/combine_moments.h"

namespace dtn {
namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

__global__ void __launch_bounds__(kThreads) pack_moments_kernel(PackMoments args) {
  const std::int64_t c = thread_index();
  if (c >= args.channels) return;
  auto value = [c](const void* of) {
    return static_cast<double>(static_cast<const float*>(of)[c]);
  };
  args.packed[c] = args.mean_rest ? value(args.mean) + value(args.mean_rest)
                                  : static_cast<const double*>(args.mean)[c];
  args.packed[args.channels + c] = value(args.variance);
  if (c == 0) args.packed[2 * args.channels] = static_cast<double>(args.rows);
}

__global__ void __launch_bounds__(kThreads) combine_moments_kernel(CombineMoments args) {
  const std::int64_t c = thread_index(), channels = args.channels;
  if (c >= channels) return;
  double rows = 0, mean = 0, squares = 0;
#pragma unroll 4
  for (std::int64_t r = 0; r < args.ranks; ++r) {
    const double* of_rank = args.packed + r * (2 * channels + 1);
    const double more = of_rank[2 * channels], apart = of_rank[c] - mean;
    if (more == 0) continue;
    const double share = more / (rows + more);
    mean += apart * share;
    squares += more * of_rank[channels + c] + apart * apart * (rows * share);
    rows += more;
  }
  static_cast<float*>(args.variance)[c] = static_cast<float>(squares / rows);
  if (args.mean_rest) {
    const float nearest = static_cast<float>(mean);
    static_cast<float*>(args.mean)[c] = nearest;
    static_cast<float*>(args.mean_rest)[c] = static_cast<float>(mean - nearest);
  } else {
    static_cast<double*>(args.mean)[c] = mean;
  }
}

void require_float32(const char* kernel, DType dtype) {
  if (dtype == DType::kFloat32) return;
  throw Error(cat(kernel, ": ", name_of(dtype), " is not computed on CUDA devices; float32 is"));
}

}  // namespace

void run(CudaQueue& queue, const PackMoments& args) {
  require_float32("pack_moments", args.dtype);
  if (args.channels == 0) return;
  launch(queue, {"pack_moments", {args.channels}}, pack_moments_kernel,
         {blocks_for(args.channels, kThreads), kThreads}, args);
}

void run(CudaQueue& queue, const CombineMoments& args) {
  require_float32("combine_moments", args.dtype);
  if (args.channels == 0) return;
  launch(queue, {"combine_moments", {args.ranks, args.channels}}, combine_moments_kernel,
         {blocks_for(args.channels, kThreads), kThreads}, args);
}

}  // namespace dtn
