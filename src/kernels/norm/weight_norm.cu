// Weight normalisation, one warp per row; see weight_norm.h for the formulas. The scale reads each
// direction once. The backward pass reads direction and gradient and writes the gradient.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/norm/weight_norm.h"

namespace dtn {
namespace {

constexpr int kWeightNormWarps = 8;

// Row of this warp.
__device__ __forceinline__ std::int64_t weight_norm_row() {
  return static_cast<std::int64_t>(blockIdx.x) * kWeightNormWarps + threadIdx.x / cuda::kWarpSize;
}

// Calls f(c) for every n-th column c that is this lane's.
template <int n, class F>
__device__ __forceinline__ void for_lane_columns(std::int64_t columns, F&& f) {
  const std::int64_t lane = threadIdx.x % cuda::kWarpSize;
  for (std::int64_t c = lane * n; c < columns; c += cuda::kWarpSize * n) f(c);
}

// Blocks: rows / kWeightNormWarps.
template <int n>
__global__ void weight_norm_scale_kernel(std::int64_t rows, std::int64_t columns,
                                         const float* direction, const float* gain, float* scale,
                                         float* inverse_length) {
  const std::int64_t row = weight_norm_row();
  if (row >= rows) return;  // the whole warp returns
  float squares = 0;
  for_lane_columns<n>(columns, [&](std::int64_t c) {
    float v[n];
    cuda::load_values(direction + row * columns + c, v);
#pragma unroll
    for (int k = 0; k < n; ++k) squares = fmaf(v[k], v[k], squares);
  });
  const float inverse = 1.0f / sqrtf(cuda::warp_sum(squares));
  if (threadIdx.x % cuda::kWarpSize != 0) return;
  scale[row] = gain[row] * inverse;
  if (inverse_length) inverse_length[row] = inverse;
}

// Blocks: rows / kWeightNormWarps.
template <int n>
__global__ void weight_norm_backward_kernel(std::int64_t rows, std::int64_t columns,
                                            const float* direction, const float* gain,
                                            const float* inverse_length, const float* sums,
                                            float* dgain, float* ddirection) {
  const std::int64_t row = weight_norm_row();
  if (row >= rows) return;
  const float sum = sums[row], inverse = inverse_length[row];
  if (dgain && threadIdx.x % cuda::kWarpSize == 0) dgain[row] += sum * inverse;
  if (!ddirection) return;
  const float factor = sum * (gain[row] * inverse) * inverse * inverse;
  for_lane_columns<n>(columns, [&](std::int64_t c) {
    float v[n], dv[n];
    cuda::load_values(direction + row * columns + c, v);
    cuda::load_values(ddirection + row * columns + c, dv);
#pragma unroll
    for (int k = 0; k < n; ++k) dv[k] = fmaf(-factor, v[k], dv[k]);
    cuda::store_values(ddirection + row * columns + c, dv);
  });
}

void check_float32(const char* kernel, DType dtype) {
  DTN_CHECK(dtype == DType::kFloat32, kernel, ": ", name_of(dtype),
            " is not computed on CUDA devices; float32 is");
}

LaunchShape weight_norm_shape(std::int64_t rows) {
  return {blocks_for(rows, kWeightNormWarps), kWeightNormWarps * cuda::kWarpSize, 0};
}

}  // namespace

void run(CudaQueue& queue, const WeightNormScale& args) {
  check_float32("weight_norm_scale", args.dtype);
  if (args.rows == 0) return;
  const bool wide = cuda::is_vectorizable<float>(args.direction, args.columns);
  launch(queue, {"weight_norm_scale", {args.rows, args.columns}},
         wide ? weight_norm_scale_kernel<4> : weight_norm_scale_kernel<1>,
         weight_norm_shape(args.rows), args.rows, args.columns,
         static_cast<const float*>(args.direction), static_cast<const float*>(args.gain),
         static_cast<float*>(args.scale), static_cast<float*>(args.inverse_length));
}

void run(CudaQueue& queue, const WeightNormBackward& args) {
  check_float32("weight_norm_backward", args.dtype);
  if (args.rows == 0) return;
  const bool wide = cuda::is_vectorizable<float>(args.direction, args.columns) &&
                    cuda::is_vectorizable<float>(args.ddirection, args.columns);
  launch(queue, {"weight_norm_backward", {args.rows, args.columns}},
         wide ? weight_norm_backward_kernel<4> : weight_norm_backward_kernel<1>,
         weight_norm_shape(args.rows), args.rows, args.columns,
         static_cast<const float*>(args.direction), static_cast<const float*>(args.gain),
         static_cast<const float*>(args.inverse_length), static_cast<const float*>(args.sums),
         static_cast<float*>(args.dgain), static_cast<float*>(args.ddirection));
}

}  // namespace dtn
