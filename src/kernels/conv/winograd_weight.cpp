// Gradient of the kernels of winograd.h. The transformed inputs and output gradients of a batch of
// tiles are multiplied with the tiles as the inner dimension; the sums of all batches are
// transformed to kernels at the end.
#include "dtn/core/parallel.h"
#include "kernels/conv/winograd.h"
#include "kernels/conv/winograd_tiles.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/gemm/gemm.h"

namespace dtn::DTN_ISA {
namespace {

// Returns the smallest row stride for `count` elements that is an odd number of cache lines: whole
// vectors, spread over the cache.
template <class T>
std::int64_t row_stride(std::int64_t count) {
  constexpr std::int64_t line = 64 / sizeof(T);
  return ((count + line - 1) / line | 1) * line;
}

// dweight[o, c, t] += transformed sums[point, o, c]
template <class T>
void add_kernels(const ConvolutionShape& s, const T* sums, std::int64_t ld, T* dweight) {
  const std::int64_t point_step = s.outputs * ld;
  parallel_ranges(s.outputs, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      T* to = dweight + o * s.channels * s.taps();
      for (std::int64_t c = 0; c < s.channels; c += kLanes<T>) {
        const std::int64_t count = std::min<std::int64_t>(kLanes<T>, s.channels - c);
        const T* from = sums + o * ld + c;
        transform_square<T, KernelGradientTransform>(
            [&](int i, int j) { return load(from + (i * kWinogradInputs + j) * point_step); },
            [&](int i, int j, Vec<T> v) {
              T* tap = to + c * s.taps() + i * kWinogradTaps + j;
              for (std::int64_t n = 0; n < count; ++n) tap[n * s.taps()] += v[n];
            });
      }
    }
  });
}

template <class T>
void backward_weight(CpuQueue& queue, const WinogradBackwardWeight& args) {
  constexpr std::int64_t kCacheBytes = 12 << 20, kMinTiles = 48;
  const ConvolutionShape& s = args.shape;
  const Window& w = s.window;
  const TileGrid grid(s.batch, w.out_h, w.out_w);
  if (grid.count() == 0) return;
  const TiledMap x{w.height, w.width, s.channels, w.pad_h, w.pad_w};
  const TiledMap dy{w.out_h, w.out_w, s.outputs};
  const std::int64_t ld_x = row_stride<T>(s.channels), ld_dy = row_stride<T>(s.outputs);
  const std::int64_t of_tile = kWinogradPoints * (ld_x + ld_dy) * std::int64_t{sizeof(T)};
  const std::int64_t block =
      std::min(grid.count(), std::max(kMinTiles, kCacheBytes / of_tile / 4 * 4));
  Scratch::Scope scope(queue.scratch());
  const TransformedTiles<T> inputs{scope.take<T>(kWinogradPoints * block * ld_x), block * ld_x,
                                   ld_x, kLanes<T>};
  const TransformedTiles<T> gradients{scope.take<T>(kWinogradPoints * block * ld_dy), block * ld_dy,
                                      ld_dy, kLanes<T>};
  T* sums = scope.take<T>(kWinogradPoints * s.outputs * ld_x);
  Gemm g{};
  g.dtype = g.c_dtype = s.dtype;
  g.m = s.outputs, g.n = s.channels;
  g.a = gradients.data, g.b = inputs.data, g.c = sums;
  g.lda = ld_dy, g.ldb = g.ldc = ld_x;
  g.transpose_a = true;
  g.batch = kWinogradPoints;
  g.stride_a = gradients.point_step, g.stride_b = inputs.point_step, g.stride_c = s.outputs * ld_x;
  for (std::int64_t begin = 0; begin < grid.count(); begin += block) {
    g.k = std::min(block, grid.count() - begin);
    parallel_ranges(g.k, 4, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t tile = first; tile < last; ++tile) {
        transform_tile<InputTransform>(grid, x, static_cast<const T*>(args.x), begin + tile, tile,
                                       inputs);
        transform_tile<OutputGradientTransform>(grid, dy, static_cast<const T*>(args.dy),
                                                begin + tile, tile, gradients);
      }
    });
    g.accumulate = begin > 0;
    run(queue, g);
  }
  add_kernels(s, sums, ld_x, static_cast<T*>(args.dweight));
}

}  // namespace

void run(CpuQueue& queue, const WinogradBackwardWeight& args) {
  for_accumulator_dtype("WinogradBackwardWeight", args.shape.dtype,
                        [&](auto t) { backward_weight<decltype(t)>(queue, args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(WinogradBackwardWeight)
