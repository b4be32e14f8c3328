// Loss of an image-to-image model, one block per piece; see pixel_loss.h for the formulas.
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/loss/pixel_loss.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kSumBytes = kThreads / cuda::kWarpSize * sizeof(double);

template <class T>
__global__ void __launch_bounds__(kThreads) pixel_sums_kernel(PixelLossForward args) {
  DTN_SHARED(double, scratch);
  const T* output = static_cast<const T*>(args.output);
  const float* target = static_cast<const float*>(args.target);
  const std::int64_t piece = blockIdx.x, last = (piece + 1) * kPixelPiece;
  const std::int64_t end = last < args.values ? last : args.values;
  const double eps = args.weights.eps;
  double l1 = 0, l2 = 0, charbonnier = 0;
  for (std::int64_t i = piece * kPixelPiece + threadIdx.x; i < end; i += kThreads) {
    const double d = cuda::to_float(output[i]) - target[i];
    l1 += fabs(d);
    l2 += d * d;
    charbonnier += sqrt(d * d + eps * eps);
  }
  l1 = cuda::block_sum(l1, scratch);
  l2 = cuda::block_sum(l2, scratch);
  charbonnier = cuda::block_sum(charbonnier, scratch);
  if (threadIdx.x != 0) return;
  double* sums = args.sums + piece * kPixelTerms;
  sums[0] = l1;
  sums[1] = l2;
  sums[2] = charbonnier;
}

__global__ void pixel_means_kernel(PixelLossForward args) { write_pixel_loss<float>(args); }

template <class T>
__global__ void __launch_bounds__(kThreads) pixel_slopes_kernel(PixelLossBackward args) {
  const T* output = static_cast<const T*>(args.output);
  const float* target = static_cast<const float*>(args.target);
  const double each = static_cast<double>(*static_cast<const float*>(args.upstream)) /
                      static_cast<double>(args.values);
  const float l1 = static_cast<float>(each * args.weights.l1);
  const float l2 = static_cast<float>(2 * each * args.weights.l2);
  const float charbonnier = static_cast<float>(each * args.weights.charbonnier);
  const float eps_squared = static_cast<float>(args.weights.eps * args.weights.eps);
  const std::int64_t last = (std::int64_t{blockIdx.x} + 1) * kPixelPiece;
  const std::int64_t end = last < args.values ? last : args.values;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kPixelPiece + threadIdx.x; i < end;
       i += kThreads) {
    const float d = cuda::to_float(output[i]) - target[i];
    float slope = l2 * d + (d > 0 ? l1 : d < 0 ? -l1 : 0 * d);  // NaN stays NaN
    if (charbonnier != 0) slope += charbonnier * d / sqrtf(d * d + eps_squared);
    static_cast<T*>(args.doutput)[i] = cuda::from_float<T>(slope);
  }
}

}  // namespace

void run(CudaQueue& queue, const PixelLossForward& args) {
  for_cuda_dtype("pixel_loss_forward", args.dtype, [&](auto zero) {
    const std::int64_t pieces = pixel_pieces(args.values);
    if (pieces == 0) return;
    launch(queue, {"pixel_sums", {args.values}}, pixel_sums_kernel<decltype(zero)>,
           {blocks_for(pieces, 1), kThreads, kSumBytes}, args);
    launch(queue, {"pixel_means", {pieces}}, pixel_means_kernel, {1, 1}, args);
  });
}

void run(CudaQueue& queue, const PixelLossBackward& args) {
  for_cuda_dtype("pixel_loss_backward", args.dtype, [&](auto zero) {
    const std::int64_t pieces = pixel_pieces(args.values);
    if (pieces == 0) return;
    launch(queue, {"pixel_slopes", {args.values}}, pixel_slopes_kernel<decltype(zero)>,
           {blocks_for(pieces, 1), kThreads}, args);
  });
}

}  // namespace dtn
