// Convolutions of tokens as matrix products whose left factor is gathered tile by tile
// (conv_patches.h); see convolution.h. Depthwise and pointwise convolutions and those that suit
// kernels/conv/winograd.h have kernels of their own.
//
// The taps of a kernel come before its channels, w[o, (u, v), c]. So a window of the grid is a few
// runs of memory, and a convolution is patches [positions, kh kw C] times w^T. The gradient of x is
// the same with another kernel, separately for each phase of the stride (axis_taps.h). Each input
// is written once, and nothing is multiplied by the zeros of a stride. If windows do not overlap,
// the gradient is one product whose columns are the patches. The gradient of the kernel is dy^T
// patches. All work is cut into tiles as in matrix products, so the bits depend on the shape alone.
#include "kernels/conv/convolution.h"

#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/conv/depthwise_tokens.h"
#include "kernels/conv/winograd.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear.h"
#include "kernels/gemm/linear_epilogue.h"
#include "kernels/gemm/tile_ops.h"

namespace dtn {
namespace {

std::int64_t unit_of(const ConvolutionShape& s) {
  return static_cast<std::int64_t>(size_of(s.dtype));
}

// Calls f with a zero of an unsigned type of `bytes` bytes, for copies of values.
template <class F>
void for_unit(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

// The taps of a kernel that a product uses, in its order. Tap (u, v) of the product is number
// first + u step_h + v step_w of the kernel.
struct TapOrder {
  std::int64_t rows, columns, first, step_h, step_w;

  std::int64_t count() const { return rows * columns; }
  std::int64_t at(std::int64_t t) const {
    return first + t / columns * step_h + t % columns * step_w;
  }
};

TapOrder all_taps(const Window& w) { return {w.kernel_h, w.kernel_w, 0, w.kernel_w, 1}; }
TapOrder taps_of(const GridTaps& t, std::int64_t kernel_w) {
  return {t.h.taps, t.w.taps, t.h.tap * kernel_w + t.w.tap, t.h.tap_step * kernel_w, t.w.tap_step};
}

// Copies kernels [O, C / groups, taps] with the channels innermost. Element (o, t, c) goes to
// o step_o + t step_t + c.
void channels_last(const ConvolutionShape& s, const TapOrder& taps, const void* weight, void* to,
                   std::int64_t step_o, std::int64_t step_t) {
  const std::int64_t channels = s.channels_of_group(), all = s.taps();
  for_unit(unit_of(s), [&](auto zero) {
    using Unit = decltype(zero);
    parallel_ranges(s.outputs, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        const Unit* from = static_cast<const Unit*>(weight) + o * channels * all;
        for (std::int64_t t = 0; t < taps.count(); ++t) {
          Unit* line = static_cast<Unit*>(to) + o * step_o + t * step_t;
          const Unit* tap = from + taps.at(t);
          for (std::int64_t c = 0; c < channels; ++c) line[c] = tap[c * all];
        }
      }
    });
  });
}

GatherPart gather_of(const Patches& patches) {
  return [patches](std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
                   void* to) { patches.gather(row, rows, col, cols, static_cast<char*>(to)); };
}

Patches input_patches(const ConvolutionShape& s, std::int64_t group, const void* x) {
  return {forward_taps(s.window), s.channels, group * s.channels_of_group(),
          s.channels_of_group(),  unit_of(s), static_cast<const char*>(x)};
}

// C[m, n] = A[m, k] B[k, n] of one group, with the strides of dense matrices.
Gemm product(const ConvolutionShape& s, std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm g{};
  g.dtype = g.c_dtype = s.dtype;
  g.m = m, g.n = n, g.k = k;
  g.lda = k, g.ldb = g.ldc = n;
  return g;
}

// --- gradient of the input ----------------------------------------------------------------------

// Writes the rows of a tile of [B h.count w.count, C] to their places in dx.
void store_places(CpuQueue& queue, const ConvolutionShape& s, const GridTaps& taps,
                  const ProductTile& tile, char* dx) {
  const AxisTaps &h = taps.h, &w = taps.w;
  const std::int64_t of_image = h.count * w.count, unit = unit_of(s);
  LinearEpilogue e{};
  e.dtype = s.dtype;
  e.cols = tile.cols;
  e.ld_product = tile.ld;
  e.ld = w.step * s.channels;
  for (std::int64_t r = 0; r < tile.rows; r += e.rows) {  // up to the end of a line of the grid
    const std::int64_t image = (tile.row + r) / of_image, n = (tile.row + r) % of_image / w.count;
    const std::int64_t m = (tile.row + r) % w.count;
    const std::int64_t line = (image * s.window.height + h.place(n)) * s.window.width;
    e.rows = std::min(tile.rows - r, w.count - m);
    e.product = at_element(tile.values, accumulator_of(s.dtype), r * tile.ld);
    e.y = dx + ((line + w.place(m)) * s.channels + tile.col) * unit;
    run(queue, e);
  }
}

// Computes the gradients of the inputs of one phase of the stride, for one group.
void backward_phase(CpuQueue& queue, const ConvolutionBackwardInput& args, const GridTaps& taps,
                    std::int64_t group, const char* weight) {
  const AxisTaps &h = taps.h, &w = taps.w;
  const ConvolutionShape& s = args.shape;
  const std::int64_t unit = unit_of(s), out = s.outputs_of_group();
  const Patches patches{taps, s.outputs, group * out, out, unit, static_cast<const char*>(args.dy)};
  Gemm g = product(s, s.batch * h.count * w.count, s.channels_of_group(), patches.columns());
  g.b = weight + group * out * h.taps * w.taps * s.channels_of_group() * unit;
  char* dx = static_cast<char*>(args.dx) + group * s.channels_of_group() * unit;
  const GatherPart gather = gather_of(patches);
  if (h.step == 1 && w.step == 1) {
    g.c = dx;
    g.ldc = s.channels;
    if (!s.in_place()) return run_gathered(queue, g, &gather, nullptr);
    g.a = static_cast<const char*>(args.dy) + group * out * unit;
    g.lda = s.outputs;
    return run(queue, g);
  }
  const TileEpilogue store = [&](CpuQueue& q, const ProductTile& tile) {
    store_places(q, s, taps, tile, dx);
  };
  run_gathered(queue, g, &gather, nullptr, &store);
}

// Computes the gradients of all inputs, phase by phase. The kernel of a phase is
// [groups, taps, out, in].
void backward_phases(CpuQueue& queue, const ConvolutionBackwardInput& args) {
  const ConvolutionShape& s = args.shape;
  const Window& w = s.window;
  for (std::int64_t phase = 0; phase < w.stride_h * w.stride_w; ++phase) {
    const GridTaps grid = backward_taps(w, phase);
    const TapOrder taps = taps_of(grid, w.kernel_w);
    if (taps.count() == 0 || grid.h.count * grid.w.count == 0) continue;
    const std::int64_t in = s.channels_of_group(), out = s.outputs_of_group();
    Scratch::Scope scope(queue.scratch());
    char* weight = scope.take<char>(s.outputs * taps.count() * in * unit_of(s));
    // Output o of a group is row (t, o) of its kernel.
    for (std::int64_t group = 0; group < s.groups; ++group) {
      ConvolutionShape one = s;
      one.channels = in, one.outputs = out, one.groups = 1;
      const std::int64_t first = group * out * in * unit_of(s);
      channels_last(one, taps, static_cast<const char*>(args.weight) + first * s.taps(),
                    weight + first * taps.count(), in, out * in);
      backward_phase(queue, args, grid, group, weight);
    }
  }
}

// Computes the gradients if windows do not overlap: dy w gives whole patches of dx.
void backward_patches(CpuQueue& queue, const ConvolutionBackwardInput& args) {
  const ConvolutionShape& s = args.shape;
  const Window& w = s.window;
  const std::int64_t unit = unit_of(s), columns = s.taps() * s.channels;
  Scratch::Scope scope(queue.scratch());
  char* weight = scope.take<char>(s.outputs * columns * unit);
  channels_last(s, all_taps(w), args.weight, weight, columns, s.channels);
  Gemm g = product(s, s.positions(), columns, s.outputs);
  g.a = args.dy;
  g.b = weight;
  const std::int64_t line = w.kernel_w * s.channels;  // of a patch
  run_with_epilogue(queue, g, [&](CpuQueue& q, const ProductTile& tile) {
    LinearEpilogue e{};
    e.dtype = s.dtype;
    e.rows = 1;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const std::int64_t position = tile.row + r, image = position / (w.out_h * w.out_w);
      const std::int64_t i = position / w.out_w % w.out_h * w.stride_h;
      const std::int64_t j = position % w.out_w * w.stride_w;
      for (std::int64_t k = 0; k < tile.cols; k += e.cols) {
        const std::int64_t u = (tile.col + k) / line, c = (tile.col + k) % line;
        e.cols = std::min(tile.cols - k, line - c);
        e.product = at_element(tile.values, accumulator_of(s.dtype), r * tile.ld + k);
        e.y = static_cast<char*>(args.dx) +
              (((image * w.height + i + u) * w.width + j) * s.channels + c) * unit;
        run(q, e);
      }
    }
  });
}

void clear(const ConvolutionBackwardInput& args) {
  const ConvolutionShape& s = args.shape;
  const std::int64_t image = s.window.height * s.window.width * s.channels * unit_of(s);
  parallel_for(s.batch, [&](std::int64_t b) {
    std::memset(static_cast<char*>(args.dx) + b * image, 0, static_cast<std::size_t>(image));
  });
}

// True if the windows are adjacent and do not overlap.
bool tiles_the_grid(const ConvolutionShape& s) {
  const Window& w = s.window;
  return s.groups == 1 && w.pad_h == 0 && w.pad_w == 0 && w.stride_h == w.kernel_h &&
         w.stride_w == w.kernel_w;
}

// True if the products leave some inputs unwritten, because no window covers them.
bool leaves_out_inputs(const ConvolutionShape& s) {
  const Window& w = s.window;
  if (w.kernel_h < w.stride_h || w.kernel_w < w.stride_w) return true;
  return tiles_the_grid(s) && (w.out_h * w.stride_h < w.height || w.out_w * w.stride_w < w.width);
}

// dweight[o, c, t] += sums[o, t, c]
template <class A>
void add_channels_first(const ConvolutionShape& s, const A* sums, A* dweight) {
  const std::int64_t channels = s.channels_of_group(), taps = s.taps();
  parallel_ranges(s.outputs, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const A* from = sums + o * taps * channels;
      A* to = dweight + o * taps * channels;
      for (std::int64_t t = 0; t < taps; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) to[c * taps + t] += from[t * channels + c];
      }
    }
  });
}

void check_shape(const ConvolutionShape& s) {
  DTN_CHECK(s.groups > 0 && s.channels % s.groups == 0 && s.outputs % s.groups == 0, s.channels,
            " channels and ", s.outputs, " outputs are not divisible into ", s.groups, " groups");
  DTN_CHECK(s.channels > 0 && s.outputs > 0, "a convolution needs channels and outputs, not ",
            s.channels, " and ", s.outputs);
}

}  // namespace

void run(CpuQueue& queue, const ConvolutionForward& args) {
  const ConvolutionShape& s = args.shape;
  check_shape(s);
  if (s.depthwise()) return run(queue, DepthwiseTokensForward{args});
  if (s.pointwise()) {
    return run(queue, LinearForward{s.dtype, s.positions(), s.channels, s.outputs, args.x,
                                    args.weight, args.bias, args.y});
  }
  if (suits_winograd(s)) return run(queue, WinogradForward{args});
  const std::int64_t unit = unit_of(s), out = s.outputs_of_group();
  const std::int64_t columns = s.taps() * s.channels_of_group();
  Scratch::Scope scope(queue.scratch());
  char* weight = scope.take<char>(s.outputs * columns * unit);
  channels_last(s, all_taps(s.window), args.weight, weight, columns, s.channels_of_group());
  for (std::int64_t group = 0; group < s.groups; ++group) {
    Gemm g = product(s, s.positions(), out, columns);
    g.b = weight + group * out * columns * unit;
    g.ldb = columns;
    g.transpose_b = true;
    g.c = static_cast<char*>(args.y) + group * out * unit;
    g.ldc = s.outputs;
    const GatherPart gather = gather_of(input_patches(s, group, args.x));
    if (s.in_place()) {
      g.a = static_cast<const char*>(args.x) + group * s.channels_of_group() * unit;
      g.lda = s.channels;
    }
    const TileEpilogue add_bias = [&](CpuQueue& q, const ProductTile& tile) {
      const std::int64_t first = group * out + tile.col;
      LinearEpilogue e{};
      e.dtype = s.dtype;
      e.rows = tile.rows, e.cols = tile.cols;
      e.product = tile.values;
      e.ld_product = tile.ld;
      e.bias = at_element(args.bias, accumulator_of(s.dtype), first);
      e.y = at_element(args.y, s.dtype, tile.row * s.outputs + first);
      e.ld = s.outputs;
      run(q, e);
    };
    run_gathered(queue, g, s.in_place() ? nullptr : &gather, nullptr,
                 args.bias ? &add_bias : nullptr);
  }
}

void run(CpuQueue& queue, const ConvolutionBackwardInput& args) {
  const ConvolutionShape& s = args.shape;
  check_shape(s);
  if (s.depthwise()) return run(queue, DepthwiseTokensBackwardInput{args});
  if (s.pointwise()) {
    return run(queue, LinearBackwardInput{s.dtype, s.positions(), s.channels, s.outputs, args.dy,
                                          args.weight, args.dx});
  }
  if (suits_winograd(s)) return run(queue, WinogradBackwardInput{args});
  if (leaves_out_inputs(s)) clear(args);
  tiles_the_grid(s) ? backward_patches(queue, args) : backward_phases(queue, args);
}

void run(CpuQueue& queue, const ConvolutionBackwardWeight& args) {
  const ConvolutionShape& s = args.shape;
  check_shape(s);
  if (s.depthwise()) return run(queue, DepthwiseTokensBackwardWeight{args});
  if (s.pointwise() || !args.dweight) {
    return run(queue, LinearBackwardWeight{s.dtype, s.positions(), s.channels, s.outputs, args.dy,
                                           args.x, args.dweight, args.dbias});
  }
  if (suits_winograd_weight(s)) {
    ConvolutionBackwardWeight bias_alone = args, weight_alone = args;
    bias_alone.dweight = nullptr, weight_alone.dbias = nullptr;
    if (args.dbias) run(queue, bias_alone);
    return run(queue, WinogradBackwardWeight{weight_alone});
  }
  const DType acc = accumulator_of(s.dtype);
  const std::int64_t out = s.outputs_of_group(), columns = s.taps() * s.channels_of_group();
  Scratch::Scope scope(queue.scratch());
  void* sums = scope.take<char>(s.outputs * columns * static_cast<std::int64_t>(size_of(acc)));
  for (std::int64_t group = 0; group < s.groups; ++group) {
    Gemm g = product(s, out, columns, s.positions());
    g.c_dtype = acc;
    g.a = at_element(args.dy, s.dtype, group * out);
    g.lda = s.outputs;
    g.transpose_a = true;
    g.c = at_element(sums, acc, group * out * columns);
    g.a_sums = at_element(args.dbias, acc, group * out);
    const GatherPart gather = gather_of(input_patches(s, group, args.x));
    run_gathered(queue, g, nullptr, &gather);
  }
  if (acc == DType::kFloat64) {
    add_channels_first(s, static_cast<const double*>(sums), static_cast<double*>(args.dweight));
  } else {
    add_channels_first(s, static_cast<const float*>(sums), static_cast<float*>(args.dweight));
  }
}

}  // namespace dtn
