// Supervised contrastive loss, one block per row; see contrastive.h for the formulas. A row of
// products (16 KB for 4096 rows) is read from memory once. The second read of the forward pass
// finds it in the cache. The backward pass reads it once and writes the gradient once.
#include "kernels/cuda/reduce.cuh"
#include "kernels/loss/contrastive.h"

namespace dtn {
namespace {

constexpr int kContrastThreads = 256;
constexpr std::size_t kContrastBytes = kContrastThreads / cuda::kWarpSize * sizeof(float);

// Blocks: rows.
__global__ void __launch_bounds__(kContrastThreads)
    contrastive_forward_kernel(ContrastiveForward a, float per_temperature) {
  DTN_SHARED(float, scratch);
  const std::int64_t row = blockIdx.x, label = a.labels[row];
  const float* x = static_cast<const float*>(a.products) + row * a.rows;

  float largest = -INFINITY;
  for (std::int64_t j = threadIdx.x; j < a.rows; j += kContrastThreads) {
    if (j != row) largest = cuda::max_or_nan(largest, x[j]);
  }
  largest = cuda::block_max(largest, scratch);

  float exps = 0, positives = 0, shifted = 0;
  for (std::int64_t j = threadIdx.x; j < a.rows; j += kContrastThreads) {
    if (j == row) continue;
    const float s = (x[j] - largest) * per_temperature;
    exps += expf(s);
    if (a.labels[j] == label) {
      positives += 1;
      shifted += s;
    }
  }
  const float log_sum = logf(cuda::block_sum(exps, scratch));
  positives = cuda::block_sum(positives, scratch);
  shifted = cuda::block_sum_once(shifted, scratch);
  if (threadIdx.x != 0) return;

  const bool none = positives == 0;
  const float loss = static_cast<float>(a.scale) * (log_sum - shifted / positives);
  static_cast<float*>(a.loss)[row] = none ? 0.0f : loss;
  static_cast<float*>(a.lse)[row] = none ? INFINITY : __fmaf_rn(largest, per_temperature, log_sum);
  static_cast<float*>(a.positives)[row] = positives;
  a.without_positives[row] = none ? 1.0f : 0.0f;
}

// Blocks: anchors. The thread that reads a product also overwrites it.
__global__ void __launch_bounds__(kContrastThreads)
    contrastive_backward_kernel(ContrastiveBackward a, float per_temperature) {
  const std::int64_t anchor = blockIdx.x, row = a.positions ? a.positions[anchor] : anchor;
  float* gradient = static_cast<float*>(a.gradient) + anchor * a.rows;
  if (row < 0 || row >= a.rows) {
    for (std::int64_t j = threadIdx.x; j < a.rows; j += kContrastThreads) gradient[j] = NAN;
    return;
  }
  const float* x = static_cast<const float*>(a.products) + row * a.rows;
  const float* lse = static_cast<const float*>(a.lse);
  const std::int64_t label = a.labels[row];
  const float lse_here = lse[row], positives = static_cast<const float*>(a.positives)[row];
  float scale = static_cast<float>(a.scale);
  if (a.upstream) scale *= *static_cast<const float*>(a.upstream);
  for (std::int64_t j = threadIdx.x; j < a.rows; j += kContrastThreads) {
    const float s = x[j] * per_temperature;
    const float p = expf(s - lse_here) + expf(s - lse[j]);
    const float target = a.labels[j] == label ? 2 / positives : 0.0f;
    gradient[j] = j == row ? 0.0f : scale * (p - target);
  }
}

void check_cuda_type(const char* kernel, const ContrastiveArguments& args) {
  DTN_CHECK(args.dtype == DType::kFloat32, kernel, ": ", name_of(args.dtype),
            " is not computed on CUDA devices; float32 is");
}

}  // namespace

void run(CudaQueue& queue, const ContrastiveForward& args) {
  check_cuda_type("contrastive_forward", args);
  if (args.rows == 0) return;
  launch(queue, {"contrastive_forward", {args.rows}}, contrastive_forward_kernel,
         {blocks_for(args.rows, 1), kContrastThreads, kContrastBytes}, args,
         static_cast<float>(1 / args.temperature));
}

void run(CudaQueue& queue, const ContrastiveBackward& args) {
  check_cuda_type("contrastive_backward", args);
  if (args.anchors == 0) return;
  launch(queue, {"contrastive_backward", {args.anchors, args.rows}}, contrastive_backward_kernel,
         {blocks_for(args.anchors, 1), kContrastThreads}, args,
         static_cast<float>(1 / args.temperature));
}

}  // namespace dtn
