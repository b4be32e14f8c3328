// Depthwise convolutions of tokens on a device; see depthwise_tokens.h. For the outputs and for the
// gradient of the input, a thread computes a few adjacent places in a vector of channels. The
// places share the kernel and most of their sources; neighbouring threads have neighbouring
// channels. For the gradient of the kernel, a thread sums one channel over every kWarps-th row of a
// chunk of rows. The sums of warps, then of chunks, are added in order. A 3 x 3 window that moves
// by one column at a time has separate kernels (depthwise_tokens_3x3.cu).
#include "kernels/conv/depthwise_tokens.h"
#include "kernels/conv/depthwise_tokens_cuda.cuh"
#include "kernels/cuda/partials.cuh"

namespace dtn {
namespace {

using depthwise::kBeside;
using depthwise::kBlocks;
using depthwise::kThreads;
using depthwise::kVector;
using depthwise::kWarps;
using depthwise::Map;

// [C, taps] -> [taps, C] in float32.
template <class T>
__global__ void __launch_bounds__(kThreads)
    taps_first_kernel(const T* weight, std::int64_t channels, std::int64_t taps, float* to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < channels * taps) to[i] = cuda::to_float(weight[i % channels * taps + i / channels]);
}

template <class T, int n, class Index>
__global__ void __launch_bounds__(kThreads, kBlocks)
    depthwise_tokens_kernel(Map map, const T* from, const float* weight, const float* bias, T* to,
                            std::int64_t count) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (thread >= count) return;
  const AxisTaps &h = map.h, &w = map.w;
  const auto at = depthwise::ThreadPlaces<n, 1>::template of<Index>(map, thread);
  const T* image = from + at.image * h.sources * w.sources * map.channels + at.channel;
  float sum[kBeside][n];
  depthwise::begin_sums(bias, at.channel, sum);
  for (std::int64_t u = h.begin_of(at.row); u < h.end_of(at.row); ++u) {
    const T* line = image + (h.first_source(at.row) + u) * w.sources * map.channels;
    for (std::int64_t v = 0; v < w.taps; ++v) {
      float factor[n];
      cuda::load_values(weight + map.tap(u, v) * map.channels + at.channel, factor);
#pragma unroll
      for (int q = 0; q < kBeside; ++q) {
        const std::int64_t x = w.first_source(at.first + q) + v;
        if (x < 0 || x >= w.sources) continue;
        float value[n];
        cuda::load_values(line + x * map.channels, value);
#pragma unroll
        for (int k = 0; k < n; ++k) sum[q][k] += factor[k] * value[k];
      }
    }
  }
  depthwise::store_sums(map, at, at.row, sum, to);
}

// Blocks: [chunk of rows, 32 channels, output]; threads: [warp, channel]. kSide 3: all nine taps of
// a 3 x 3 kernel and the bias at once. kSide 0: one tap, or the bias if output = taps.
template <class T, int kSide>
__global__ void __launch_bounds__(kWarps* cuda::kWarpSize)
    depthwise_tokens_weight_kernel(Map map, const T* x, const T* dy, std::int64_t rows,
                                   std::int64_t rows_per_chunk, float* partials) {
  constexpr int kSums = kSide == 3 ? 10 : 1;
  DTN_SHARED(float, shared);  // [kWarps, kSums, 32]
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const AxisTaps &h = map.h, &w = map.w;
  const std::int64_t c = std::int64_t{blockIdx.y} * cuda::kWarpSize + lane;
  const std::int64_t taps = h.taps * w.taps, output = blockIdx.z;
  const std::int64_t begin = blockIdx.x * rows_per_chunk;
  const std::int64_t end = begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;

  float sums[kSums] = {};
  for (std::int64_t r = begin + warp; r < end && c < map.channels; r += kWarps) {
    const std::int64_t image = r / h.count, n = r % h.count;
    const T* d = dy + r * w.count * map.channels + c;
    const T* from = x + image * h.sources * w.sources * map.channels + c;
    const std::int64_t top = h.first_source(n);
    for (std::int64_t m = 0; m < w.count; ++m) {
      const float gradient = cuda::to_float(d[m * map.channels]);
      const std::int64_t left = w.first_source(m);
      auto value = [&](std::int64_t u, std::int64_t v) {
        const std::int64_t i = top + u, j = left + v;
        if (i < 0 || i >= h.sources || j < 0 || j >= w.sources) return 0.0f;
        return cuda::to_float(from[(i * w.sources + j) * map.channels]);
      };
      if constexpr (kSide == 3) {
#pragma unroll
        for (int k = 0; k < 9; ++k) sums[k] += gradient * value(k / 3, k % 3);
        sums[9] += gradient;
      } else {
        sums[0] += output == taps ? gradient : gradient * value(output / w.taps, output % w.taps);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k) shared[(warp * kSums + k) * cuda::kWarpSize + lane] = sums[k];
  __syncthreads();
  for (int k = warp; k < kSums; k += kWarps) {
    float sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += shared[(i * kSums + k) * cuda::kWarpSize + lane];
    const std::int64_t row = blockIdx.x * (taps + 1) + (kSide == 3 ? k : output);
    if (c < map.channels) partials[row * map.channels + c] = sum;
  }
}

// Adds sums to the gradients. Output `taps` is the bias.
struct AddToKernels {
  std::int64_t taps;
  float *dweight, *dbias;

  __device__ __forceinline__ bool wants(int output) const {
    return (output == taps ? dbias : dweight) != nullptr;
  }
  __device__ __forceinline__ void operator()(int output, std::int64_t c, float sum) const {
    if (output == taps) {
      dbias[c] += sum;
    } else {
      dweight[c * taps + output] += sum;
    }
  }
};

template <class T>
DeviceScratch<float> taps_first(CudaQueue& queue, const ConvolutionShape& s, const void* weight) {
  const std::int64_t channels = s.channels, taps = s.taps();
  auto to = queue.scratch<float>(channels * taps);
  launch(queue, {"depthwise_tokens_taps", {channels, taps}}, taps_first_kernel<T>,
         {blocks_for(channels * taps, kThreads), kThreads}, static_cast<const T*>(weight), channels,
         taps, to.get());
  return to;
}

template <class T>
void correlate(CudaQueue& queue, const char* name, const Map& map, const T* from,
               const float* weight, const float* bias, T* to) {
  auto run_width = [&]<int n>(std::integral_constant<int, n>) {
    const std::int64_t count = depthwise::ThreadPlaces<n, 1>::threads(map);
    if (count == 0) return;
    cuda::for_index(count, [&](auto index) {
      launch(queue, {name, {map.batch, map.h.count, map.w.count, map.channels}},
             depthwise_tokens_kernel<T, n, decltype(index)>,
             {blocks_for(count, kThreads), kThreads}, map, from, weight, bias, to, count);
    });
  };
  if (map.channels % kVector == 0 && cuda::all_aligned(from, to)) {
    if (depthwise::slides_3x3(map)) {
      return depthwise::correlate_3x3(queue, name, map, from, weight, bias, to);
    }
    run_width(std::integral_constant<int, kVector>{});
  } else {
    run_width(std::integral_constant<int, 1>{});
  }
}

}  // namespace

void run(CudaQueue& queue, const DepthwiseTokensForward& args) {
  for_cuda_dtype("depthwise_tokens_forward", args.shape.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.shape.batch * args.shape.channels == 0) return;
    const auto weight = taps_first<T>(queue, args.shape, args.weight);
    correlate(queue, "depthwise_tokens_forward", depthwise::forward_map(args.shape),
              static_cast<const T*>(args.x), weight.get(), static_cast<const float*>(args.bias),
              static_cast<T*>(args.y));
  });
}

void run(CudaQueue& queue, const DepthwiseTokensBackwardInput& args) {
  for_cuda_dtype("depthwise_tokens_backward_input", args.shape.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Window& w = args.shape.window;
    if (args.shape.batch * args.shape.channels == 0) return;
    const auto weight = taps_first<T>(queue, args.shape, args.weight);
    for (std::int64_t phase = 0; phase < w.stride_h * w.stride_w; ++phase) {
      correlate(queue, "depthwise_tokens_backward_input",
                depthwise::backward_map(args.shape, phase), static_cast<const T*>(args.dy),
                weight.get(), static_cast<const float*>(nullptr), static_cast<T*>(args.dx));
    }
  });
}

void run(CudaQueue& queue, const DepthwiseTokensBackwardWeight& args) {
  for_cuda_dtype("depthwise_tokens_backward_weight", args.shape.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Window& w = args.shape.window;
    const Map map = depthwise::forward_map(args.shape);
    const std::int64_t taps = args.shape.taps(), rows = map.batch * w.out_h;
    if (rows * map.channels == 0) return;
    constexpr std::int64_t kMaxChunks = 128;  // with 32 channels each enough blocks for a device
    std::int64_t per_chunk = (rows + kMaxChunks - 1) / kMaxChunks;
    if (per_chunk < kWarps) per_chunk = kWarps;
    const std::int64_t chunks = (rows + per_chunk - 1) / per_chunk;
    auto partials = queue.scratch<float>(chunks * (taps + 1) * map.channels);
    const auto* x = static_cast<const T*>(args.x);
    const auto* dy = static_cast<const T*>(args.dy);
    auto run_side = [&]<int kSide>(std::integral_constant<int, kSide>) {
      constexpr int kSums = kSide == 3 ? 10 : 1;
      const dim3 grid(static_cast<unsigned>(chunks), blocks_for(map.channels, cuda::kWarpSize).x,
                      static_cast<unsigned>(kSide == 3 ? 1 : taps + 1));
      launch(queue, {"depthwise_tokens_backward_weight", {rows, w.out_w, map.channels}},
             depthwise_tokens_weight_kernel<T, kSide>,
             {grid, kWarps * cuda::kWarpSize, kWarps * kSums * cuda::kWarpSize * sizeof(float)},
             map, x, dy, rows, per_chunk, partials.get());
    };
    if (depthwise::slides_3x3(map) && map.channels % kVector == 0 && cuda::all_aligned(x, dy)) {
      depthwise::weight_sums_3x3(queue, map, x, dy, rows, per_chunk, partials.get());
    } else if (w.kernel_h == 3 && w.kernel_w == 3) {
      run_side(std::integral_constant<int, 3>{});
    } else {
      run_side(std::integral_constant<int, 0>{});
    }
    cuda::add_partials(
        queue, "depthwise_tokens_add_partials",
        cuda::PartialSums{partials.get(), chunks, map.channels, static_cast<int>(taps + 1)},
        AddToKernels{taps, static_cast<float*>(args.dweight), static_cast<float*>(args.dbias)});
  });
}

}  // namespace dtn
