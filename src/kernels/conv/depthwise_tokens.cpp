// Depthwise convolutions of tokens on vectors of channels; see depthwise_tokens.h.
//
// The rows of the grid that a row of windows sees are first copied to scratch memory. The copy is
// in the accumulator type, includes the padding past the edges, and has a block of channels that
// stays in the cache. So the loops over places and taps handle no edges, and bfloat16 is converted
// once for all taps. Tokens whose number of channels is a power of two do not evict each other from
// the same cache sets. Channels are innermost: a vector of outputs is a sum of vectors times
// vectors. Adjacent places are computed together, so the kernel and the sources that their windows
// share are read once. The gradient of x is the same correlation, once for each phase of the stride
// (axis_taps.h).
#include "kernels/conv/depthwise_tokens.h"

#include <algorithm>

#include "kernels/conv/depthwise_map.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {
namespace {

// Stride in channels of the tokens in scratch memory, and of the taps.
std::int64_t padded(std::int64_t channels) { return (channels + 15) / 16 * 16 + 16; }

using depthwise::Map;

// Number of sources from the first to the last one that a row of places sees.
std::int64_t columns_seen(const Map& map) {
  return (map.w.count - 1) * map.w.source_step + map.w.taps;
}

// Channels [begin, end) of a token.
struct Block {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// The sources of an image that a row of places sees, in one block of channels. From row to row of
// places, each row of sources is copied only once. It replaces a row that is no longer needed.
template <class A>
class Lines {
 public:
  Lines(Scratch::Scope& scope, const Map& map, std::int64_t most_channels)
      : map_(map),
        columns_(columns_seen(map)),
        values_(scope.take<A>(map.h.taps * columns_ * padded(most_channels))) {}

  // Starts a walk at row n of places; advance() must follow.
  void begin(std::int64_t n, const Block& block) {
    block_ = block;
    stride_ = padded(block.size());
    first_ = next_ = map_.h.first_source(n);
  }
  // Moves on to row n of places.
  template <class T>
  void advance(const T* image, std::int64_t n) {
    top_ = map_.h.first_source(n);
    for (std::int64_t row = std::max(top_, next_); row < top_ + map_.h.taps; ++row) {
      lay_out(image, row);
    }
    next_ = top_ + map_.h.taps;
  }
  // The source for place m and tap (u, 0), at the block's first channel. The source for the next
  // tap is stride() further.
  const A* source(std::int64_t u, std::int64_t m) const {
    return line(top_ + u) + m * map_.w.source_step * stride_;
  }
  std::int64_t stride() const { return stride_; }

 private:
  A* line(std::int64_t row) const {
    return values_ + (row - first_) % map_.h.taps * columns_ * stride_;
  }
  template <class T>
  void lay_out(const T* image, std::int64_t row) {
    const AxisTaps &h = map_.h, &w = map_.w;
    const bool inside = row >= 0 && row < h.sources;
    A* to = line(row);
    for (std::int64_t k = w.first_source(0); k < w.first_source(0) + columns_; ++k, to += stride_) {
      if (!inside || k < 0 || k >= w.sources) {
        std::fill_n(to, block_.size(), A(0));
        continue;
      }
      const T* from = image + (row * w.sources + k) * map_.channels + block_.begin;
      for_each_vector<A>(block_.size(), [&](std::int64_t c, auto count) {
        store_n(to + c, load_n(from + c, count), count);
      });
    }
  }

  const Map& map_;
  std::int64_t columns_;
  A* values_;
  Block block_{};
  std::int64_t stride_ = 0, first_ = 0, next_ = 0, top_ = 0;
};

// Number of rows of places per task. Windows of adjacent rows share sources, but a few images must
// still keep many threads busy.
std::int64_t rows_together(const Map& map) {
  const std::int64_t most = std::min<std::int64_t>(16, map.h.count);
  return std::clamp<std::int64_t>(map.batch * map.h.count / 64, 1, most);
}

// Number of channels per block: the lines of a block take about 256 KiB as float32.
std::int64_t channels_of_block(const Map& map) {
  constexpr std::int64_t kValues = 64 << 10;
  const std::int64_t tokens = std::max<std::int64_t>(1, map.h.taps * columns_seen(map));
  return std::min(map.channels, std::max<std::int64_t>(64, kValues / tokens / 32 * 32));
}

// Calls visit(m, n) for runs of n places from m on, which together make up a row of `count`.
template <class Visit>
void for_each_run(std::int64_t count, Visit&& visit) {
  std::int64_t m = 0;
  for (; m + 8 <= count; m += 8) visit(m, std::integral_constant<int, 8>{});
  if (m + 4 <= count) visit(m, std::integral_constant<int, 4>{}), m += 4;
  if (m + 2 <= count) visit(m, std::integral_constant<int, 2>{}), m += 2;
  if (m < count) visit(m, std::integral_constant<int, 1>{});
}

// Calls f(v, x) for the taps v of a line of a kernel; x(q) is the source for place q of a run and
// tap v. `from` is the source for place 0 and tap 0. kTaps is the number of taps if places are
// adjacent; then each source is read once. Otherwise kTaps is 0.
template <int kRun, int kTaps, class A, class N, class F>
[[gnu::always_inline]] inline void for_taps(const A* from, std::int64_t stride, const AxisTaps& w,
                                            N count, F&& f) {
  if constexpr (kTaps > 0) {
    Vec<A> line[kRun + kTaps - 1];
#pragma GCC unroll 16
    for (int k = 0; k < kRun + kTaps - 1; ++k) line[k] = load_n(from + k * stride, count);
#pragma GCC unroll 8
    for (int v = 0; v < kTaps; ++v) {
      f(static_cast<std::int64_t>(v), [&](int q) { return line[q + v]; });
    }
  } else {
    const std::int64_t beside = w.source_step * stride;
    for (std::int64_t v = 0; v < w.taps; ++v) {
      f(v, [&](int q) { return load_n(from + v * stride + q * beside, count); });
    }
  }
}

// Calls f with the number of taps as a constant if it is 3 and places are adjacent, else with 0.
template <class F>
void with_taps(const AxisTaps& w, F&& f) {
  if (w.taps == 3 && w.source_step == 1) return f(std::integral_constant<int, 3>{});
  f(std::integral_constant<int, 0>{});
}

// For places m .. m + kRun - 1 of the row that sees `lines`: to[c] = bias[c] + sum over the taps.
template <int kRun, int kTaps, class A, class T>
void correlate(const Map& map, const Lines<A>& lines, std::int64_t m, const Block& block,
               const A* weight, const A* bias, T* to) {
  const std::int64_t apart = map.w.step * map.channels;
  for_each_vector<A>(block.size(), [&](std::int64_t c, auto count) {
    Vec<A> sum[kRun];
#pragma GCC unroll 8
    for (int q = 0; q < kRun; ++q) sum[q] = bias ? load_n(bias + block.begin + c, count) : Vec<A>{};
    for (std::int64_t u = 0; u < map.h.taps; ++u) {
      const A* taps = weight + block.begin + c;
      for_taps<kRun, kTaps>(
          lines.source(u, m) + c, lines.stride(), map.w, count, [&](std::int64_t v, auto&& x) {
            const Vec<A> tap = load_n(taps + map.tap(u, v) * padded(map.channels), count);
#pragma GCC unroll 8
            for (int q = 0; q < kRun; ++q) sum[q] += tap * x(q);
          });
    }
#pragma GCC unroll 8
    for (int q = 0; q < kRun; ++q) store_n(to + q * apart + block.begin + c, sum[q], count);
  });
}

template <class T, class A>
void correlate_images(CpuQueue& queue, const Map& map, const T* from, const A* weight,
                      const A* bias, T* to) {
  if (map.batch * map.channels * map.h.count * map.w.count == 0) return;
  const std::int64_t rows = rows_together(map), width = channels_of_block(map);
  const std::int64_t bands = (map.h.count + rows - 1) / rows;
  parallel_for(map.batch * bands, [&](std::int64_t task) {
    const std::int64_t image = task / bands, first = task % bands * rows;
    const std::int64_t last = std::min(first + rows, map.h.count);
    const T* sources = from + image * map.h.sources * map.w.sources * map.channels;
    Scratch::Scope scope(queue.scratch());
    Lines<A> lines(scope, map, width);
    for (std::int64_t c = 0; c < map.channels; c += width) {
      const Block block{c, std::min(c + width, map.channels)};
      lines.begin(first, block);
      for (std::int64_t n = first; n < last; ++n) {
        lines.advance(sources, n);
        T* row = to + (image * map.height + map.h.place(n)) * map.width * map.channels;
        for_each_run(map.w.count, [&](std::int64_t m, auto run) {
          with_taps(map.w, [&](auto taps) {
            correlate<run, taps>(map, lines, m, block, weight, bias,
                                 row + map.w.place(m) * map.channels);
          });
        });
      }
    }
  });
}

// Copies [C, taps] to [taps, padded(C)] in the accumulator type.
template <class T, class A = AccumulatorOf<T>>
const A* taps_first(Scratch::Scope& scope, const ConvolutionShape& s, const void* weight) {
  const std::int64_t channels = s.channels, taps = s.taps();
  A* to = scope.take<A>(padded(channels) * taps);
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t k = 0; k < taps; ++k) {
      to[k * padded(channels) + c] = static_cast<A>(static_cast<const T*>(weight)[c * taps + k]);
    }
  }
  return to;
}

// sums[tap, c] += dy[c] x[c], and after the taps sums[taps, c] += dy[c], over a run of outputs.
template <int kRun, int kTaps, class A, class T>
void add_products(const Map& map, const Lines<A>& lines, std::int64_t m, const Block& block,
                  const T* dy, A* sums) {
  A* bias_sums = sums + map.h.taps * map.w.taps * padded(map.channels);
  for_each_vector<A>(block.size(), [&](std::int64_t c, auto count) {
    const std::int64_t channel = block.begin + c;
    Vec<A> d[kRun], total = load_n(bias_sums + channel, count);
#pragma GCC unroll 8
    for (int q = 0; q < kRun; ++q) {
      d[q] = load_n(dy + q * map.channels + channel, count);
      total += d[q];
    }
    store_n(bias_sums + channel, total, count);
    for (std::int64_t u = 0; u < map.h.taps; ++u) {
      for_taps<kRun, kTaps>(lines.source(u, m) + c, lines.stride(), map.w, count,
                            [&](std::int64_t v, auto&& x) {
                              A* to = sums + map.tap(u, v) * padded(map.channels) + channel;
                              Vec<A> sum = load_n(to, count);
#pragma GCC unroll 8
                              for (int q = 0; q < kRun; ++q) sum += d[q] * x(q);
                              store_n(to, sum, count);
                            });
    }
  });
}

// Adds the products of rows [first, last) of the outputs of one image to `sums`.
template <class T, class A>
void add_rows(const Map& map, Lines<A>& lines, std::int64_t first, std::int64_t last,
              std::int64_t width, const T* x, const T* dy, A* sums) {
  for (std::int64_t c = 0; c < map.channels; c += width) {
    const Block block{c, std::min(c + width, map.channels)};
    lines.begin(first, block);
    for (std::int64_t n = first; n < last; ++n) {
      lines.advance(x, n);
      const T* row = dy + n * map.w.count * map.channels;
      for_each_run(map.w.count, [&](std::int64_t m, auto run) {
        with_taps(map.w, [&](auto taps) {
          add_products<run, taps>(map, lines, m, block, row + m * map.channels, sums);
        });
      });
    }
  }
}

template <class T>
void backward_weight(CpuQueue& queue, const DepthwiseTokensBackwardWeight& args) {
  using A = AccumulatorOf<T>;
  const Map map = depthwise::forward_map(args.shape);
  const std::int64_t taps = map.h.taps * map.w.taps, stride = padded(map.channels);
  const std::int64_t count = (taps + 1) * stride, width = channels_of_block(map);
  const std::int64_t inputs = map.h.sources * map.w.sources * map.channels;
  const std::int64_t outputs = map.h.count * map.w.count * map.channels;
  Scratch::Scope scope(queue.scratch());
  A* totals = scope.take<A>(count);
  std::fill_n(totals, count, A(0));
  void* const to[1] = {totals};
  constexpr std::int64_t kMinRows = 4;  // a chunk's fixed cost is about that of one row
  add_row_sums<A, 1>(queue, map.batch * map.h.count, count, kMinRows, to,
                     [&](std::int64_t first, std::int64_t last, A*(&sums)[1]) {
                       Scratch::Scope of_chunk(queue.scratch());
                       Lines<A> lines(of_chunk, map, width);
                       for (std::int64_t r = first, end = 0; r < last; r = end) {
                         const std::int64_t image = r / map.h.count, n = r % map.h.count;
                         end = std::min(last, (image + 1) * map.h.count);
                         add_rows(map, lines, n, n + end - r, width,
                                  static_cast<const T*>(args.x) + image * inputs,
                                  static_cast<const T*>(args.dy) + image * outputs, sums[0]);
                       }
                     });
  for (std::int64_t c = 0; c < map.channels; ++c) {
    for (std::int64_t k = 0; args.dweight && k < taps; ++k) {
      static_cast<A*>(args.dweight)[c * taps + k] += totals[k * stride + c];
    }
    if (args.dbias) static_cast<A*>(args.dbias)[c] += totals[taps * stride + c];
  }
}

}  // namespace

void run(CpuQueue& queue, const DepthwiseTokensForward& args) {
  for_dtype("DepthwiseTokensForward", args.shape.dtype, [&](auto t) {
    using T = decltype(t);
    Scratch::Scope scope(queue.scratch());
    correlate_images(queue, depthwise::forward_map(args.shape), static_cast<const T*>(args.x),
                     taps_first<T>(scope, args.shape, args.weight),
                     static_cast<const AccumulatorOf<T>*>(args.bias), static_cast<T*>(args.y));
  });
}

void run(CpuQueue& queue, const DepthwiseTokensBackwardInput& args) {
  for_dtype("DepthwiseTokensBackwardInput", args.shape.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    const Window& w = args.shape.window;
    Scratch::Scope scope(queue.scratch());
    const A* weight = taps_first<T>(scope, args.shape, args.weight);
    for (std::int64_t phase = 0; phase < w.stride_h * w.stride_w; ++phase) {
      correlate_images(queue, depthwise::backward_map(args.shape, phase),
                       static_cast<const T*>(args.dy), weight, static_cast<const A*>(nullptr),
                       static_cast<T*>(args.dx));
    }
  });
}

void run(CpuQueue& queue, const DepthwiseTokensBackwardWeight& args) {
  if (args.shape.batch == 0) return;
  for_dtype("DepthwiseTokensBackwardWeight", args.shape.dtype,
            [&](auto t) { backward_weight<decltype(t)>(queue, args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(DepthwiseTokensForward)
DTN_DISPATCH(DepthwiseTokensBackwardInput)
DTN_DISPATCH(DepthwiseTokensBackwardWeight)
