// Weighted cross-entropy, one block per row; see weighted_cross_entropy.h for the formulas, and its
// .cpp for the numerics. Each pass reads the row several times; after the first time it is in the
// cache. With labels, each thread computes the targets of its row.
#include "kernels/loss/focal_factor.h"
#include "kernels/loss/row_pieces.cuh"
#include "kernels/loss/weighted_cross_entropy.h"

namespace dtn {
namespace {

// Weights t w of one row, by column.
template <bool kDense>
struct ColumnWeights {
  ColumnTargets<kDense, ClassTargets> targets;
  const float* of_classes;  // null: 1

  __device__ __forceinline__ ColumnWeights(const WeightedCrossEntropyInputs& in, std::int64_t row)
      : targets(in, row, in.classes), of_classes(static_cast<const float*>(in.class_weights)) {}

  template <class Row>
  __device__ __forceinline__ void load(std::int64_t column, float (&w)[Row::kRun]) const {
    targets.template load<Row>(column, w);
    if (!of_classes) return;
    float of_class[Row::kRun];
    Row::load_float_run(of_classes + column, of_class);
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) w[k] *= of_class[k];
  }
};

// Calls f(z, w, column) with logits and weights, for the runs of columns of this thread.
template <class Row, bool kDense, class T, class F>
__device__ __forceinline__ void for_each_weighted_run(const T* row, std::int64_t classes,
                                                      const ColumnWeights<kDense>& weights, F&& f) {
  for_each_in_row<Row>(row, classes, [&](const Row& values, int i, std::int64_t column) {
    float z[Row::kRun], w[Row::kRun];
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) z[k] = values[i + k];
    weights.template load<Row>(column, w);
    f(z, w, column);
  });
}

// Returns the larger of n and 0; NaN if n is NaN.
__device__ __forceinline__ float at_least_0(float n) { return n < 0 ? 0.0f : n; }

// Blocks: rows.
template <class T, bool kWide, bool kDense>
__global__ void weighted_cross_entropy_forward_kernel(WeightedCrossEntropyInputs in, float* loss,
                                                      float* lse) {
  using Row = RowPiece<T, kWide>;
  DTN_SHARED(float, shared);
  const std::int64_t row = blockIdx.x;
  const T* z = static_cast<const T*>(in.logits) + row * in.classes;
  const ColumnWeights<kDense> weights(in, row);
  const float gamma = static_cast<float>(in.gamma);

  float largest = -INFINITY, exps = 0, sum = 0;
  for_each_in_row<Row>(z, in.classes, [&](const Row& v, int i, std::int64_t) {
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) largest = cuda::max_or_nan(largest, v[i + k]);
  });
  largest = cuda::block_max(largest, shared);
  for_each_in_row<Row>(z, in.classes, [&](const Row& v, int i, std::int64_t) {
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) exps += expf(v[i + k] - largest);
  });
  const float log_sum = logf(cuda::block_sum(exps, shared));
  for_each_weighted_run<Row>(
      z, in.classes, weights,
      [&](const float(&v)[Row::kRun], const float(&w)[Row::kRun], std::int64_t) {
#pragma unroll
        for (int k = 0; k < Row::kRun; ++k) {
          if (w[k] == 0) continue;
          const float n = at_least_0(log_sum - (v[k] - largest));
          sum += w[k] * (gamma == 0 ? n : n * FocalFactor<float>::at(n, gamma).loss);
        }
      });
  sum = cuda::block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  lse[row] = largest + log_sum;
  loss[row] = weights.targets.valid() && log_sum == log_sum ? sum : NAN;
}

// Blocks: rows. The thread that reads a logit also overwrites it.
template <class T, bool kWide, bool kDense>
__global__ void weighted_cross_entropy_backward_kernel(WeightedCrossEntropyInputs in,
                                                       const float* lse, float scale,
                                                       const float* upstream, T* dlogits) {
  using Row = RowPiece<T, kWide>;
  DTN_SHARED(float, shared);
  const std::int64_t row = blockIdx.x;
  const T* z = static_cast<const T*>(in.logits) + row * in.classes;
  const ColumnWeights<kDense> weights(in, row);
  const float gamma = static_cast<float>(in.gamma), log_z = lse[row];
  if (upstream) scale *= *upstream;
  if (!weights.targets.valid()) scale = NAN;
  const auto slope = [&](float n, float w) {
    return gamma == 0 || w == 0 ? w : w * FocalFactor<float>::at(n, gamma).slope;
  };

  float total = 0;
  for_each_weighted_run<Row>(
      z, in.classes, weights,
      [&](const float(&v)[Row::kRun], const float(&w)[Row::kRun], std::int64_t) {
#pragma unroll
        for (int k = 0; k < Row::kRun; ++k) total += slope(at_least_0(log_z - v[k]), w[k]);
      });
  total = cuda::block_sum(total, shared);
  for_each_weighted_run<Row>(
      z, in.classes, weights,
      [&](const float(&v)[Row::kRun], const float(&w)[Row::kRun], std::int64_t column) {
        float dz[Row::kRun];
#pragma unroll
        for (int k = 0; k < Row::kRun; ++k) {
          const float n = at_least_0(log_z - v[k]);
          dz[k] = scale * (expf(-n) * total - slope(n, w[k]));
        }
        Row::store_run(dlogits + row * in.classes + column, dz);
      });
}

template <class T>
bool has_wide_weights(const WeightedCrossEntropyInputs& in) {
  return has_wide_rows<T>(in, in) && cuda::is_vectorizable<float>(in.class_weights, in.classes);
}

}  // namespace

void run(CudaQueue& queue, const WeightedCrossEntropyForward& args) {
  for_cuda_dtype("weighted_cross_entropy_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0) return;
    with_row_constants(
        has_wide_weights<T>(args), args.targets != nullptr, [&](auto is_wide, auto is_dense) {
          launch(queue, {"weighted_cross_entropy_forward", {args.rows, args.classes}},
                 weighted_cross_entropy_forward_kernel<T, is_wide, is_dense>,
                 {blocks_for(args.rows, 1), threads_of_row(args.classes),
                  kMaxRowWarps * sizeof(float)},
                 static_cast<const WeightedCrossEntropyInputs&>(args),
                 static_cast<float*>(args.loss), static_cast<float*>(args.lse));
        });
  });
}

void run(CudaQueue& queue, const WeightedCrossEntropyBackward& args) {
  for_cuda_dtype("weighted_cross_entropy_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0) return;
    const bool wide =
        has_wide_weights<T>(args) && cuda::is_vectorizable<T>(args.dlogits, args.classes);
    with_row_constants(wide, args.targets != nullptr, [&](auto is_wide, auto is_dense) {
      launch(queue, {"weighted_cross_entropy_backward", {args.rows, args.classes}},
             weighted_cross_entropy_backward_kernel<T, is_wide, is_dense>,
             {blocks_for(args.rows, 1), threads_of_row(args.classes), kMaxRowWarps * sizeof(float)},
             static_cast<const WeightedCrossEntropyInputs&>(args),
             static_cast<const float*>(args.lse), static_cast<float>(args.scale),
             static_cast<const float*>(args.upstream), static_cast<T*>(args.dlogits));
    });
  });
}

}  // namespace dtn
