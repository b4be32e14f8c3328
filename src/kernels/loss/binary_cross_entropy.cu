// Binary cross-entropy, one block per row; see binary_cross_entropy.h for the formulas, and its
// .cpp for the numerics. Each pass reads the logits once, and soft targets once. With labels, each
// thread computes the targets of its row.
#include "kernels/loss/binary_cross_entropy.h"
#include "kernels/loss/row_pieces.cuh"

namespace dtn {
namespace {

// Calls f(z, t, column) with logits and targets, for the runs of columns of this thread.
template <class Row, class Columns, class T, class F>
__device__ __forceinline__ void for_each_binary_run(const T* row, std::int64_t classes,
                                                    const Columns& targets, F&& f) {
  for_each_in_row<Row>(row, classes, [&](const Row& values, int i, std::int64_t column) {
    float z[Row::kRun], t[Row::kRun];
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) z[k] = values[i + k];
    targets.template load<Row>(column, t);
    f(z, t, column);
  });
}

__device__ __forceinline__ float loss_at(float z, float t) {
  const float above = z > 0 ? z : 0.0f, below = z < 0 ? -z : 0.0f;
  const float chosen = (t == 0 ? 0.0f : t * below) + (t == 1 ? 0.0f : (1 - t) * above);
  return chosen + log1pf(expf(-fabsf(z)));
}

__device__ __forceinline__ float gradient_at(float z, float t) {
  const float e = expf(-fabsf(z)), likely = 1 / (1 + e), unlikely = e * likely;
  return z < 0 ? (1 - t) * unlikely - t * likely : (1 - t) * likely - t * unlikely;
}

// Blocks: rows.
template <class T, bool kWide, bool kDense>
__global__ void binary_cross_entropy_forward_kernel(const T* logits, std::int64_t classes,
                                                    BinaryTargets against, float scale,
                                                    float* loss) {
  using Row = RowPiece<T, kWide>;
  DTN_SHARED(float, shared);
  const std::int64_t row = blockIdx.x;
  const ColumnTargets<kDense, BinaryTargets> targets(against, row, classes);
  float sum = 0;
  for_each_binary_run<Row>(
      logits + row * classes, classes, targets,
      [&](const float(&z)[Row::kRun], const float(&t)[Row::kRun], std::int64_t) {
#pragma unroll
        for (int k = 0; k < Row::kRun; ++k) sum += loss_at(z[k], t[k]);
      });
  sum = cuda::block_sum(sum, shared);
  if (threadIdx.x == 0) loss[row] = targets.valid() ? scale * sum : NAN;
}

// Blocks: rows. The thread that reads a logit also overwrites it.
template <class T, bool kWide, bool kDense>
__global__ void binary_cross_entropy_backward_kernel(const T* logits, std::int64_t classes,
                                                     BinaryTargets against, float scale,
                                                     const float* upstream, T* dlogits) {
  using Row = RowPiece<T, kWide>;
  const std::int64_t row = blockIdx.x;
  const ColumnTargets<kDense, BinaryTargets> targets(against, row, classes);
  if (upstream) scale *= *upstream;
  if (!targets.valid()) scale = NAN;
  for_each_binary_run<Row>(
      logits + row * classes, classes, targets,
      [&](const float(&z)[Row::kRun], const float(&t)[Row::kRun], std::int64_t column) {
        float dz[Row::kRun];
#pragma unroll
        for (int k = 0; k < Row::kRun; ++k) dz[k] = scale * gradient_at(z[k], t[k]);
        Row::store_run(dlogits + row * classes + column, dz);
      });
}

}  // namespace

void run(CudaQueue& queue, const BinaryCrossEntropyForward& args) {
  for_cuda_dtype("binary_cross_entropy_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0) return;
    const bool dense = args.against.targets != nullptr;
    with_row_constants(has_wide_rows<T>(args, args.against), dense,
                       [&](auto is_wide, auto is_dense) {
                         launch(queue, {"binary_cross_entropy_forward", {args.rows, args.classes}},
                                binary_cross_entropy_forward_kernel<T, is_wide, is_dense>,
                                {blocks_for(args.rows, 1), threads_of_row(args.classes),
                                 kMaxRowWarps * sizeof(float)},
                                static_cast<const T*>(args.logits), args.classes, args.against,
                                static_cast<float>(args.scale), static_cast<float*>(args.loss));
                       });
  });
}

void run(CudaQueue& queue, const BinaryCrossEntropyBackward& args) {
  for_cuda_dtype("binary_cross_entropy_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0) return;
    const bool dense = args.against.targets != nullptr;
    const bool wide = has_wide_rows<T>(args, args.against) &&
                      cuda::is_vectorizable<T>(args.dlogits, args.classes);
    with_row_constants(wide, dense, [&](auto is_wide, auto is_dense) {
      launch(queue, {"binary_cross_entropy_backward", {args.rows, args.classes}},
             binary_cross_entropy_backward_kernel<T, is_wide, is_dense>,
             {blocks_for(args.rows, 1), threads_of_row(args.classes), 0},
             static_cast<const T*>(args.logits), args.classes, args.against,
             static_cast<float>(args.scale), static_cast<const float*>(args.upstream),
             static_cast<T*>(args.dlogits));
    });
  });
}

}  // namespace dtn
