// Computations on channel moments, one thread per value; see channel_moments.h.
#include "kernels/cuda/launch.cuh"
#include "kernels/norm/channel_moments.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ __forceinline__ const float* floats(const void* p) {
  return static_cast<const float*>(p);
}
__device__ __forceinline__ float* floats(void* p) { return static_cast<float*>(p); }

__global__ void __launch_bounds__(kThreads) channel_moments_kernel(ChannelMomentsForward args) {
  const std::int64_t i = thread_index();
  if (i >= args.count) return;
  float* moments = floats(args.moments);
  moments[i] = floats(args.mean)[i] + floats(args.mean_rest)[i];
  moments[args.count + i] = sqrtf(floats(args.variance)[i] + static_cast<float>(args.eps));
}

__global__ void __launch_bounds__(kThreads)
    channel_moments_backward_kernel(ChannelMomentsBackward args) {
  const std::int64_t i = thread_index();
  if (i >= args.sets * args.channels) return;
  const std::int64_t set = i / args.channels, at = i + set * args.channels;
  float* sums = floats(args.sums);
  const float std = floats(args.std)[i];
  sums[at] = args.dmean ? -floats(args.dmean)[i] * std : 0.0f;
  sums[at + args.channels] = args.dstd ? -floats(args.dstd)[i] * std : 0.0f;
}

__global__ void __launch_bounds__(kThreads) share_sums_kernel(ShareSums args) {
  const std::int64_t width = 2 * args.channels, i = thread_index();
  if (i >= width) return;
  const float* weight = floats(args.weight) + i % args.channels;
  float total = 0;
#pragma unroll 8
  for (std::int64_t s = 0; s < args.sets; ++s) {
    total = fmaf(weight[s * args.weight_stride], floats(args.sums)[s * width + i], total);
  }
#pragma unroll 8
  for (std::int64_t s = 0; s < args.sets; ++s) floats(args.shared)[s * width + i] = total;
}

__global__ void __launch_bounds__(kThreads) pack_moments_kernel(PackMoments args) {
  if (thread_index() < args.channels) pack_channel<float>(args, thread_index());
}

__global__ void __launch_bounds__(kThreads) combine_moments_kernel(CombineMoments args) {
  if (thread_index() < args.channels) combine_channel<float>(args, thread_index());
}

// Runs a kernel with one thread for each of `count` values.
template <class Arguments>
void run_each(CudaQueue& queue, const KernelName& name, void (*kernel)(Arguments),
              std::int64_t count, const Arguments& args) {
  if (args.dtype != DType::kFloat32) {
    throw Error(
        cat(name.name, ": ", name_of(args.dtype), " is not computed on CUDA devices; float32 is"));
  }
  if (count == 0) return;
  launch(queue, name, kernel, {blocks_for(count, kThreads), kThreads}, args);
}

}  // namespace

void run(CudaQueue& queue, const ChannelMomentsForward& args) {
  run_each(queue, {"channel_moments_forward", {args.count}}, channel_moments_kernel, args.count,
           args);
}

void run(CudaQueue& queue, const ChannelMomentsBackward& args) {
  run_each(queue, {"channel_moments_backward", {args.sets, args.channels}},
           channel_moments_backward_kernel, args.sets * args.channels, args);
}

void run(CudaQueue& queue, const ShareSums& args) {
  run_each(queue, {"share_sums", {args.sets, args.channels}}, share_sums_kernel,
           args.sets > 0 ? 2 * args.channels : 0, args);
}

void run(CudaQueue& queue, const PackMoments& args) {
  run_each(queue, {"pack_moments", {args.channels}}, pack_moments_kernel, args.channels, args);
}

void run(CudaQueue& queue, const CombineMoments& args) {
  run_each(queue, {"combine_moments", {args.ranks, args.channels}}, combine_moments_kernel,
           args.channels, args);
}

}  // namespace dtn
