// Loss of a diffusion model, one block per image; see diffusion_loss.h for the formulas.
#include <limits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/loss/diffusion_loss.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kSumBytes = kThreads / cuda::kWarpSize * sizeof(double);
constexpr double kLog2 = 0.69314718055994530942;

// The rows of one image.
template <class T>
struct ImageRows {
  const T *mean, *variance;  // e', v
  const float *noise, *start;
  DiffusionStep step;
  bool first;

  __device__ ImageRows(const DiffusionLossInputs& in, std::int64_t b)
      : mean(static_cast<const T*>(in.output) + b * in.outputs()),
        variance(mean + in.values),
        noise(static_cast<const float*>(in.noise) + b * in.values),
        start(static_cast<const float*>(in.start) + (in.learned_variance ? b * in.values : 0)),
        step(in.schedule[in.time[b]]),
        first(in.time[b] == 0) {}

  __device__ float difference(std::int64_t i) const { return cuda::to_float(mean[i]) - noise[i]; }
  __device__ BoundTerm<float> bound(std::int64_t i) const {
    const float d = difference(i), v = cuda::to_float(variance[i]);
    if (!first) return divergence_term(step, d, v);
    const BoundTerm<double> term = decoder_term(step, start[i], d, v);
    return {static_cast<float>(term.value), static_cast<float>(term.slope)};
  }
};

// Blocks: images in x, parts of an image in y.
__global__ void __launch_bounds__(kThreads) diffuse_kernel(DiffuseImages args) {
  const std::int64_t b = blockIdx.x, t = args.time[b];
  const bool valid = t >= 0 && t < args.steps;
  const float signal = valid ? static_cast<float>(args.schedule[t].signal) : NAN;
  const float noise = valid ? static_cast<float>(args.schedule[t].noise) : NAN;
  const float* x = static_cast<const float*>(args.start) + b * args.values;
  const float* e = static_cast<const float*>(args.noise) + b * args.values;
  float* y = static_cast<float*>(args.noisy) + b * args.values;
  const std::int64_t stride = std::int64_t{gridDim.y} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.y} * kThreads + threadIdx.x; i < args.values;
       i += stride) {
    y[i] = signal * x[i] + noise * e[i];
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    diffusion_loss_forward_kernel(DiffusionLossForward args) {
  DTN_SHARED(double, scratch);
  const std::int64_t b = blockIdx.x;
  double mse = NAN, bound = NAN;
  if (args.has_time(b)) {
    const ImageRows<T> rows(args, b);
    mse = bound = 0;
    for (std::int64_t i = threadIdx.x; i < args.values; i += kThreads) {
      const double d = rows.difference(i);
      mse += d * d;
      if (args.bound) bound += rows.bound(i).value;
    }
  }
  mse = cuda::block_sum(mse, scratch);
  bound = cuda::block_sum(bound, scratch);
  if (threadIdx.x != 0) return;
  const double count = static_cast<double>(args.values);
  static_cast<float*>(args.mse)[b] = static_cast<float>(mse / count);
  if (args.bound) static_cast<float*>(args.bound)[b] = static_cast<float>(bound / (count * kLog2));
}

constexpr int kFigures = sizeof(DiffusionFigures<float>) / sizeof(float);

// One warp; each lane adds one figure over the batch.
__global__ void diffusion_figures_kernel(DiffusionLossForward args) {
  const int i = static_cast<int>(threadIdx.x);
  const float figure = i < kFigures ? diffusion_figure<float>(args, i) : 0.0f;
  if (i < kFigures) static_cast<float*>(args.figures)[i] = figure;
  const float bound = __shfl_down_sync(0xffffffffu, figure, 1);
  if (i == 0) *static_cast<float*>(args.loss) = figure + bound;
}

// Blocks: images in x, parts of an image in y. The thread that reads a value also overwrites it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    diffusion_loss_backward_kernel(DiffusionLossBackward args) {
  const std::int64_t b = blockIdx.x, stride = std::int64_t{gridDim.y} * kThreads;
  const std::int64_t first = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  T* out = static_cast<T*>(args.doutput) + b * args.outputs();
  if (!args.has_time(b)) {
    for (std::int64_t i = first; i < args.outputs(); i += stride) {
      out[i] = cuda::from_float<T>(NAN);
    }
    return;
  }
  const double upstream = *static_cast<const float*>(args.upstream);
  const double each =
      upstream / (static_cast<double>(args.values) * static_cast<double>(args.batch));
  const float of_mean = static_cast<float>(2 * each), of_bound = static_cast<float>(each / kLog2);
  const ImageRows<T> rows(args, b);
  for (std::int64_t i = first; i < args.values; i += stride) {
    const float d = rows.difference(i);
    if (args.learned_variance) {
      out[args.values + i] = cuda::from_float<T>(of_bound * rows.bound(i).slope);
    }
    out[i] = cuda::from_float<T>(of_mean * d);
  }
}

// Blocks for images of `values` values, some for each thread.
dim3 blocks_of_images(std::int64_t batch, std::int64_t values) {
  constexpr std::int64_t kPerThread = 4, kMaxParts = 65535;
  const std::int64_t parts = (values + kThreads * kPerThread - 1) / (kThreads * kPerThread);
  dim3 blocks = blocks_for(batch, 1);
  blocks.y = static_cast<unsigned>(parts < kMaxParts ? parts : kMaxParts);
  return blocks;
}

}  // namespace

void run(CudaQueue& queue, const DiffuseImages& args) {
  DTN_CHECK(args.dtype == DType::kFloat32, "diffuse_images: ", name_of(args.dtype),
            " is not computed on CUDA devices; float32 is");
  if (args.batch == 0 || args.values == 0) return;
  launch(queue, {"diffuse_images", {args.batch, args.values}}, diffuse_kernel,
         {blocks_of_images(args.batch, args.values), kThreads}, args);
}

void run(CudaQueue& queue, const DiffusionLossForward& args) {
  for_cuda_dtype("diffusion_loss_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.batch == 0) return;
    launch(queue, {"diffusion_loss_forward", {args.batch, args.values}},
           diffusion_loss_forward_kernel<T>, {blocks_for(args.batch, 1), kThreads, kSumBytes},
           args);
    launch(queue, {"diffusion_figures", {args.batch}}, diffusion_figures_kernel,
           {1, cuda::kWarpSize}, args);
  });
}

void run(CudaQueue& queue, const DiffusionLossBackward& args) {
  for_cuda_dtype("diffusion_loss_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.batch == 0 || args.values == 0) return;
    launch(queue, {"diffusion_loss_backward", {args.batch, args.values}},
           diffusion_loss_backward_kernel<T>, {blocks_of_images(args.batch, args.values), kThreads},
           args);
  });
}

}  // namespace dtn
