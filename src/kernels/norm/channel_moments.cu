// Elementwise computations on channel moments, one thread per value; see channel_moments.h.
#include "kernels/cuda/launch.cuh"
#include "kernels/norm/channel_moments.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

__global__ void __launch_bounds__(kThreads)
    channel_moments_kernel(std::int64_t count, float eps, const float* mean, const float* rest,
                           const float* variance, float* moments) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  moments[i] = mean[i] + rest[i];
  moments[count + i] = sqrtf(variance[i] + eps);
}

__global__ void __launch_bounds__(kThreads)
    channel_moments_backward_kernel(std::int64_t sets, std::int64_t channels, const float* std,
                                    const float* dmean, const float* dstd, float* sums) {
  const std::int64_t i = thread_index();
  if (i >= sets * channels) return;
  const std::int64_t set = i / channels, at = i + set * channels;
  sums[at] = dmean ? -dmean[i] * std[i] : 0.0f;
  sums[at + channels] = dstd ? -dstd[i] * std[i] : 0.0f;
}

__global__ void __launch_bounds__(kThreads)
    share_sums_kernel(std::int64_t sets, std::int64_t channels, const float* weight,
                      std::int64_t stride, const float* sums, float* shared) {
  const std::int64_t width = 2 * channels, i = thread_index();
  if (i >= width) return;
  float total = 0;
#pragma unroll 8
  for (std::int64_t s = 0; s < sets; ++s) {
    total = fmaf(weight[s * stride + i % channels], sums[s * width + i], total);
  }
#pragma unroll 8
  for (std::int64_t s = 0; s < sets; ++s) shared[s * width + i] = total;
}

void require_float32(const char* kernel, DType dtype) {
  if (dtype == DType::kFloat32) return;
  throw Error(cat(kernel, ": ", name_of(dtype), " is not computed on CUDA devices; float32 is"));
}

const float* floats(const void* p) { return static_cast<const float*>(p); }
float* floats(void* p) { return static_cast<float*>(p); }

}  // namespace

void run(CudaQueue& queue, const ChannelMomentsForward& args) {
  require_float32("channel_moments_forward", args.dtype);
  if (args.count == 0) return;
  launch(queue, {"channel_moments_forward", {args.count}}, channel_moments_kernel,
         {blocks_for(args.count, kThreads), kThreads}, args.count, static_cast<float>(args.eps),
         floats(args.mean), floats(args.mean_rest), floats(args.variance), floats(args.moments));
}

void run(CudaQueue& queue, const ChannelMomentsBackward& args) {
  require_float32("channel_moments_backward", args.dtype);
  const std::int64_t count = args.sets * args.channels;
  if (count == 0) return;
  launch(queue, {"channel_moments_backward", {args.sets, args.channels}},
         channel_moments_backward_kernel, {blocks_for(count, kThreads), kThreads}, args.sets,
         args.channels, floats(args.std), floats(args.dmean), floats(args.dstd), floats(args.sums));
}

void run(CudaQueue& queue, const ShareSums& args) {
  require_float32("share_sums", args.dtype);
  if (args.sets == 0 || args.channels == 0) return;
  launch(queue, {"share_sums", {args.sets, args.channels}}, share_sums_kernel,
         {blocks_for(2 * args.channels, kThreads), kThreads}, args.sets, args.channels,
         floats(args.weight), args.weight_stride, floats(args.sums), floats(args.shared));
}

}  // namespace dtn
