// Forward pass and gradient of the input of winograd.h. One task computes a block of tiles, from
// the inputs to the outputs, in the cache of its core. The kernels are transformed before, once.
#include "dtn/core/parallel.h"
#include "kernels/conv/winograd.h"
#include "kernels/conv/winograd_tiles.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/microkernel.h"

namespace dtn::DTN_ISA {
namespace {

// Elements of a cache line.
template <class T>
constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));

// A convolution of `map` to tiles of a map of `outputs` channels.
template <class T>
struct Convolution {
  TileGrid grid;
  TiledMap map, out;
  const T* x;
  const T* bias;  // may be null
  T* y;
  // Kernel element (input channel k, output channel n, tap t) is kernel[k step_k + n step_n + t],
  // or with the taps in reverse order.
  const T* kernel;
  std::int64_t step_k, step_n;
  bool reversed;

  std::int64_t depth() const { return round_up(map.channels, kLanes<T>); }
  std::int64_t vectors() const { return divide_up(out.channels, kLanes<T>); }
  // Distance between the transformed kernels of two points: an odd number of cache lines, which
  // spreads the points over the cache.
  std::int64_t kernel_step() const { return depth() * vectors() * kLanes<T> + kLine<T>; }
};

// Transforms the kernels of input channel k and the outputs of one vector, `column` and later, to
// `to`. Points are kernel_step() apart.
template <class T>
void transform_kernels(const Convolution<T>& c, std::int64_t k, std::int64_t column, T* to) {
  constexpr int lanes = kLanes<T>, taps = kWinogradTaps * kWinogradTaps;
  const std::int64_t count = std::min<std::int64_t>(lanes, c.out.channels - column);
  T values[taps][lanes] = {};
  const T* from = c.kernel + k * c.step_k + column * c.step_n;
  for (std::int64_t n = 0; n < count && k < c.map.channels; ++n) {
    for (int t = 0; t < taps; ++t) {
      values[c.reversed ? taps - 1 - t : t][n] = from[n * c.step_n + t];
    }
  }
  transform_square<T, KernelTransform>(
      [&](int i, int j) { return load(values[i * kWinogradTaps + j]); },
      [&](int i, int j, Vec<T> v) { store(to + (i * kWinogradInputs + j) * c.kernel_step(), v); });
}

// The layout of the kernels of a point is that of multiply_point(): panels of outputs, input
// channels within a panel, outputs innermost.
template <class T>
void transform_all_kernels(const Convolution<T>& c, T* kernels) {
  constexpr int lanes = kLanes<T>;
  parallel_ranges(c.depth(), 16, [&](std::int64_t begin, std::int64_t end) {
    for_each_panel(c.vectors(), [&](std::int64_t first, auto panel) {
      constexpr int V = decltype(panel)::value;
      T* to = kernels + first * lanes * c.depth();
      for (std::int64_t k = begin; k < end; ++k) {
        for (int v = 0; v < V; ++v) {
          transform_kernels(c, k, (first + v) * lanes, to + (k * V + v) * lanes);
        }
      }
    });
  });
}

// products[tile][output] = sum over channels of inputs[channel block][tile][lane] kernel, for one
// point. Channel blocks are `block` tiles apart, a multiple of kRowAlign. The last products may be
// those of rows past `tiles`, which nothing reads.
template <class T>
void multiply_point(const Convolution<T>& c, std::int64_t tiles, std::int64_t block,
                    const T* inputs, const T* kernel, T* products) {
  constexpr int lanes = kLanes<T>;
  const std::int64_t ld = c.vectors() * lanes;
  for_each_panel(c.vectors(), [&](std::int64_t first, auto panel) {
    constexpr int V = decltype(panel)::value;
    const T* columns = kernel + first * lanes * c.depth();
    for_each_tile<V>(tiles, [&](std::int64_t row, auto tile_rows) {
      constexpr int R = decltype(tile_rows)::value;
      Vec<T> sums[R][V];
      FromZero{}(sums, row, first);
      for (std::int64_t k = 0; k < c.depth(); k += lanes) {
        multiply_tile<T, lanes, 1>(sums, inputs + k * block + row * lanes, columns + k * V * lanes,
                                   V * lanes, lanes);
      }
      T* to = products + row * ld + first * lanes;
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) store(to + r * ld + v * lanes, sums[r][v]);
      }
    });
  });
}

template <class T>
void finish_tile(const Convolution<T>& c, std::int64_t tile, const T* products,
                 std::int64_t point_step) {
  constexpr int kSide = kWinogradOutputs;
  const Square<T, kSide> square(c.grid, c.out, tile, c.y);
  for_each_vector<T>(c.out.channels, [&](std::int64_t o, auto count) {
    const Vec<T> bias = c.bias ? load_n(c.bias + o, count) : Vec<T>{};
    transform_square<T, OutputTransform>(
        [&](int i, int j) { return load(products + (i * kWinogradInputs + j) * point_step + o); },
        [&](int i, int j, Vec<T> v) {
          if (T* to = square.at[i][j]) store_n(to + o, Vec<T>(v + bias), count);
        });
  });
}

// Returns the tiles of a task: more for large kernels, which a task reads as a whole.
template <class T>
std::int64_t block_size(const Convolution<T>& c) {
  return c.map.channels * c.out.channels >= 128 * 128 && c.grid.count() >= 8 * kRowAlign
             ? 2 * kRowAlign
             : kRowAlign;
}

template <class T>
void convolve(CpuQueue& queue, const Convolution<T>& c) {
  Scratch::Scope scope(queue.scratch());
  T* kernels = scope.take<T>(kWinogradPoints * c.kernel_step());
  transform_all_kernels(c, kernels);
  const std::int64_t block = block_size(c), ld = c.vectors() * kLanes<T>;
  parallel_ranges(c.grid.count(), block, [&](std::int64_t begin, std::int64_t end) {
    Scratch::Scope inner(queue.scratch());
    const std::int64_t input_step = block * c.depth() + kLine<T>, step = block * ld + kLine<T>;
    T* inputs = inner.take<T>(kWinogradPoints * input_step);
    T* products = inner.take<T>(kWinogradPoints * step);
    const TransformedTiles<T> transformed{inputs, input_step, kLanes<T>, block * kLanes<T>};
    for (std::int64_t tile = begin; tile < end; ++tile) {
      transform_tile<InputTransform>(c.grid, c.map, c.x, tile, tile - begin, transformed);
    }
    for (int p = 0; p < kWinogradPoints; ++p) {
      multiply_point(c, end - begin, block, inputs + p * input_step, kernels + p * c.kernel_step(),
                     products + p * step);
    }
    for (std::int64_t tile = begin; tile < end; ++tile) {
      finish_tile(c, tile, products + (tile - begin) * ld, step);
    }
  });
}

}  // namespace

void run(CpuQueue& queue, const WinogradForward& args) {
  const ConvolutionShape& s = args.shape;
  const Window& w = s.window;
  for_accumulator_dtype("WinogradForward", s.dtype, [&](auto t) {
    using T = decltype(t);
    convolve(queue, Convolution<T>{TileGrid(s.batch, w.out_h, w.out_w),
                                   {w.height, w.width, s.channels, w.pad_h, w.pad_w},
                                   {w.out_h, w.out_w, s.outputs},
                                   static_cast<const T*>(args.x),
                                   static_cast<const T*>(args.bias),
                                   static_cast<T*>(args.y),
                                   static_cast<const T*>(args.weight),
                                   s.taps(),
                                   s.channels * s.taps(),
                                   false});
  });
}

void run(CpuQueue& queue, const WinogradBackwardInput& args) {
  const ConvolutionShape& s = args.shape;
  const Window& w = s.window;
  for_accumulator_dtype("WinogradBackwardInput", s.dtype, [&](auto t) {
    using T = decltype(t);
    convolve(queue, Convolution<T>{TileGrid(s.batch, w.height, w.width),
                                   {w.out_h, w.out_w, s.outputs, w.kernel_h - 1 - w.pad_h,
                                    w.kernel_w - 1 - w.pad_w},
                                   {w.height, w.width, s.channels},
                                   static_cast<const T*>(args.dy),
                                   nullptr,
                                   static_cast<T*>(args.dx),
                                   static_cast<const T*>(args.weight),
                                   s.channels * s.taps(),
                                   s.taps(),
                                   true});
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(WinogradForward)
DTN_DISPATCH(WinogradBackwardInput)
