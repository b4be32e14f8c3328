// L1 loss of box deltas, value by value; see box_loss.h for the formulas.
#include "kernels/loss/anchor_sums.cuh"
#include "kernels/loss/box_loss.h"

namespace dtn {
namespace {

// The place of a value of the deltas among the targets.
struct BoxPlace {
  std::int64_t label, target;

  __device__ __forceinline__ BoxPlace(const BoxLossInputs& in, std::int64_t i) {
    const std::int64_t row = i / kBoxDeltas;
    const std::int64_t place = row / in.anchors * in.stride + row % in.anchors;
    label = in.labels[place], target = place * kBoxDeltas + i % kBoxDeltas;
  }
};

template <class T>
__device__ __forceinline__ float box_difference(const BoxLossInputs& in, const BoxPlace& at,
                                                std::int64_t i) {
  return cuda::to_float(static_cast<const T*>(in.deltas)[i]) -
         static_cast<const float*>(in.targets)[at.target];
}

template <class T>
struct BoxSum {
  BoxLossInputs in;

  __device__ __forceinline__ float operator()(std::int64_t i) const {
    const BoxPlace at(in, i);
    return at.label < 0 ? 0.0f : fabsf(box_difference<T>(in, at, i));
  }
};

constexpr int kGradientThreads = 256;

template <class T>
__global__ void __launch_bounds__(kGradientThreads) box_gradient_kernel(BoxLossBackward args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kGradientThreads + threadIdx.x;
  if (i >= args.rows() * kBoxDeltas) return;
  const BoxPlace at(args, i);
  float d = 0;
  if (at.label >= 0) {
    const float factor =
        *static_cast<const float*>(args.scale) * *static_cast<const float*>(args.upstream);
    d = box_difference<T>(args, at, i);
    d = d > 0 ? factor : d < 0 ? -factor : d == 0 ? 0.0f : d;
  }
  static_cast<T*>(args.ddeltas)[i] = cuda::from_float<T>(d);
}

}  // namespace

void run(CudaQueue& queue, const BoxLossForward& args) {
  for_cuda_dtype("box_loss_forward", args.dtype, [&](auto zero) {
    cuda::launch_scaled_sum(
        queue, "box_loss_forward", BoxSum<decltype(zero)>{args}, args.rows() * kBoxDeltas,
        {static_cast<const float*>(args.scale), static_cast<float*>(args.loss)});
  });
}

void run(CudaQueue& queue, const BoxLossBackward& args) {
  for_cuda_dtype("box_loss_backward", args.dtype, [&](auto zero) {
    const std::int64_t count = args.rows() * kBoxDeltas;
    if (count == 0) return;
    launch(queue, {"box_loss_backward", {count}}, box_gradient_kernel<decltype(zero)>,
           {blocks_for(count, kGradientThreads), kGradientThreads}, args);
  });
}

}  // namespace dtn
