// Normalization along the rows, forward; see channel_norm.h for the formulas.
//
// The kernels read whole rows, in memory order, and the sums of the channels stay in the
// first-level cache. Differences are taken from a pivot: one of the two middle values of four rows
// spread over the part. So neither mean nor variance loses digits when |mean| is much larger than
// the standard deviation, or when a class token is much larger than the other rows. The moments of
// parts are merged as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
// computing sample variances", 1979. A set that fits in the second-level cache is read from memory
// once.
#include "kernels/norm/channel_norm.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/norm/channel_norm_parts.h"

namespace dtn::DTN_ISA {
namespace {

// Moments of some rows, for each channel.
template <class A>
struct Moments {
  A* pivot;
  A* mean;     // relative to the pivot
  A* squares;  // sum of squared differences from the mean
  std::int64_t rows;

  static std::int64_t size(std::int64_t channels) { return 3 * padded(channels); }
  Moments(A* memory, std::int64_t channels, std::int64_t count)
      : pivot(memory),
        mean(memory + padded(channels)),
        squares(memory + 2 * padded(channels)),
        rows(count) {}
};

template <class T>
void take_pivots(const T* x, std::int64_t channels, const Moments<AccumulatorOf<T>>& m) {
  using A = AccumulatorOf<T>;
  const bool few = m.rows < 4;
  const std::int64_t step = m.rows / 4 * channels;
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    Vec<A> pivot = load_n(x + c, count);
    if (!few) {  // one of the two middle values of the four
      pivot = max(min(pivot, load_n(x + step + c, count)),
                  min(load_n(x + 2 * step + c, count), load_n(x + 3 * step + c, count)));
    }
    store_n(m.pivot + c, pivot, count);
    store_n(m.mean + c, Vec<A>{}, count);
    store_n(m.squares + c, Vec<A>{}, count);
  });
}

// Computes the moments of m.rows rows, starting at x.
template <class T>
void gather(const T* x, std::int64_t channels, const Moments<AccumulatorOf<T>>& m) {
  using A = AccumulatorOf<T>;
  take_pivots(x, channels, m);
  for_each_group<kChannelRows>(0, m.rows, [&](std::int64_t row, auto together) {
    const T* p = x + row * channels;
    for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
      const Vec<A> pivot = load_n(m.pivot + c, count);
      Vec<A> sum{}, squares{};
      for (int r = 0; r < together; ++r) {
        const Vec<A> d = load_n(p + r * channels + c, count) - pivot;
        sum += d;
        squares += d * d;
      }
      store_n(m.mean + c, load_n(m.mean + c, count) + sum, count);
      store_n(m.squares + c, load_n(m.squares + c, count) + squares, count);
    });
  });
  const A share = A(1) / static_cast<A>(m.rows);
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    const Vec<A> sum = load_n(m.mean + c, count), mean = sum * share;
    const Vec<A> squares = load_n(m.squares + c, count) - sum * mean;
    store_n(m.mean + c, mean, count);
    store_n(m.squares + c, max(Vec<A>{}, squares), count);
  });
}

template <class A>
void merge(Moments<A>& into, const Moments<A>& other, std::int64_t channels) {
  const A share = static_cast<A>(other.rows) / static_cast<A>(into.rows + other.rows);
  const A weight = share * static_cast<A>(into.rows);
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    const Vec<A> mean = load_n(into.mean + c, count);
    const Vec<A> apart = (load_n(other.pivot + c, count) - load_n(into.pivot + c, count)) +
                         (load_n(other.mean + c, count) - mean);
    store_n(into.mean + c, mean + apart * share, count);
    const Vec<A> squares = load_n(into.squares + c, count) + load_n(other.squares + c, count);
    store_n(into.squares + c, squares + apart * apart * weight, count);
  });
  into.rows += other.rows;
}

template <class A>
struct Statistics {
  A *mean, *rest, *variance;  // of one set, [G]
};

template <class A>
Statistics<A> statistics_of(const ChannelNormForward& args, std::int64_t set) {
  auto at = [&](void* p) { return static_cast<A*>(p) + set * args.groups; };
  return {at(args.mean), at(args.mean_rest), at(args.variance)};
}

// high + low = a + b exactly; high is the rounded sum.
template <class V>
struct TwoParts {
  V high, low;
  TwoParts(V a, V b) {
    high = a + b;
    const V of_b = high - a;
    low = (a - (high - of_b)) + (b - of_b);
  }
};

// Returns the divisor of the sum of squared differences.
template <class A>
A divisor(const ChannelNormForward& args) {
  const std::int64_t n = args.rows * (args.channels / args.groups) - (args.unbiased ? 1 : 0);
  return static_cast<A>(n > 1 ? n : 1);
}

// Stores the statistics of each channel.
template <class A>
void store_each(const ChannelNormForward& args, const Moments<A>& m, const Statistics<A>& to) {
  const A share = A(1) / divisor<A>(args);
  for_each_vector<A>(args.channels, [&](std::int64_t c, auto count) {
    const TwoParts<Vec<A>> mean(load_n(m.pivot + c, count), load_n(m.mean + c, count));
    store_n(to.mean + c, mean.high, count);
    store_n(to.rest + c, mean.low, count);
    store_n(to.variance + c, Vec<A>(load_n(m.squares + c, count) * share), count);
  });
}

// Stores the statistics of each group of channels.
template <class A>
void store_groups(const ChannelNormForward& args, const Moments<A>& m, const Statistics<A>& to) {
  const std::int64_t size = args.channels / args.groups;
  for (std::int64_t g = 0; g < args.groups; ++g) {
    const std::int64_t first = g * size;
    const A base = m.pivot[first];
    auto mean_at = [&](std::int64_t c, auto count) {
      return (load_n(m.pivot + first + c, count) - base) + load_n(m.mean + first + c, count);
    };
    Vec<A> sum{}, squares{}, within{};
    for_each_vector<A>(
        size, [&](std::int64_t c, auto count) { sum += keep_n(mean_at(c, count), count); });
    const A mean = reduce_add(sum) / static_cast<A>(size);
    for_each_vector<A>(size, [&](std::int64_t c, auto count) {
      const Vec<A> d = keep_n(mean_at(c, count) - mean, count);
      squares += d * d;
      within += load_n(m.squares + first + c, count);
    });
    const TwoParts<A> parts(base, mean);
    to.mean[g] = parts.high;
    to.rest[g] = parts.low;
    const A total = reduce_add(within) + static_cast<A>(args.rows) * reduce_add(squares);
    to.variance[g] = total / divisor<A>(args);
  }
}

template <class A>
void store_statistics(const ChannelNormForward& args, const Moments<A>& m,
                      const Statistics<A>& to) {
  args.groups == args.channels ? store_each(args, m, to) : store_groups(args, m, to);
}

template <class T>
class Forward {
  using A = AccumulatorOf<T>;

 public:
  Forward(CpuQueue& queue, const ChannelNormForward& args)
      : queue_(queue), args_(args), cut_(args.sets, args.rows) {}

  void run() {
    const bool gathers = args_.part != ChannelNormPart::kApplication;
    const bool applies = args_.part != ChannelNormPart::kStatistics;
    if (cut_.by_set) {
      parallel_for(cut_.sets, [&](std::int64_t set) {
        if (gathers) gather_set(set);
        if (applies) apply_set(set);
      });
      return;
    }
    if (gathers) gather_parts();
    if (applies) apply_parts();
  }

 private:
  const T* x(std::int64_t set, std::int64_t row) const {
    return static_cast<const T*>(args_.x) + (set * args_.rows + row) * args_.channels;
  }
  T* y(std::int64_t set, std::int64_t row) const {
    return static_cast<T*>(args_.y) + (set * args_.rows + row) * args_.channels;
  }

  void gather_set(std::int64_t set) {
    const std::int64_t size = Moments<A>::size(args_.channels);
    Scratch::Scope scope(queue_.scratch());
    A* memory = scope.template take<A>(2 * size);
    Moments<A> all(memory, args_.channels, cut_.size(0));
    gather(x(set, 0), args_.channels, all);
    for (std::int64_t part = 1; part < cut_.parts; ++part) {
      Moments<A> more(memory + size, args_.channels, cut_.size(part));
      gather(x(set, cut_.begin(part)), args_.channels, more);
      merge(all, more, args_.channels);
    }
    store_statistics(args_, all, statistics_of<A>(args_, set));
  }

  void gather_parts() {
    const std::int64_t size = Moments<A>::size(args_.channels);
    Scratch::Scope scope(queue_.scratch());
    A* memory = scope.template take<A>(cut_.sets * cut_.parts * size);
    auto moments = [&](std::int64_t set, std::int64_t part) {
      return Moments<A>(memory + (set * cut_.parts + part) * size, args_.channels, cut_.size(part));
    };
    cut_.for_each_part([&](std::int64_t set, std::int64_t part) {
      gather(x(set, cut_.begin(part)), args_.channels, moments(set, part));
    });
    parallel_for(cut_.sets, [&](std::int64_t set) {
      Moments<A> all = moments(set, 0);
      for (std::int64_t part = 1; part < cut_.parts; ++part) {
        merge(all, moments(set, part), args_.channels);
      }
      store_statistics(args_, all, statistics_of<A>(args_, set));
    });
  }

  ChannelOutput<A> output(std::int64_t set, A* memory) const {
    const ChannelOutput<A> to(memory, args_.channels);
    Scratch::Scope scope(queue_.scratch());
    to.compute(args_, set,
               {args_.mean, args_.mean_rest, args_.variance, set, args_.channels, args_.groups,
                scope.template take<A>(3 * padded(args_.channels))});
    return to;
  }

  template <bool kRelu>
  void apply(std::int64_t set, std::int64_t first, std::int64_t rows, const ChannelOutput<A>& k) {
    const std::int64_t channels = args_.channels;
    for_each_group<kChannelRows>(0, rows, [&](std::int64_t row, auto together) {
      const T* from = x(set, first + row);
      T* to = y(set, first + row);
      for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
        const Vec<A> mean = load_n(k.mean + c, count), scale = load_n(k.scale + c, count);
        const Vec<A> offset = load_n(k.offset + c, count);
        for (int r = 0; r < together; ++r) {
          Vec<A> v = load_n(from + r * channels + c, count);
          v = (v - mean) * scale + offset;
          if constexpr (kRelu) v = max(Vec<A>{}, v);  // this operand order keeps NaN
          store_n(to + r * channels + c, v, count);
        }
      });
    });
  }

  void apply(std::int64_t set, std::int64_t first, std::int64_t rows, const ChannelOutput<A>& k) {
    args_.relu ? apply<true>(set, first, rows, k) : apply<false>(set, first, rows, k);
  }

  void apply_set(std::int64_t set) {
    Scratch::Scope scope(queue_.scratch());
    A* memory = scope.template take<A>(ChannelOutput<A>::size(args_.channels));
    apply(set, 0, args_.rows, output(set, memory));
  }

  void apply_parts() {
    const std::int64_t size = ChannelOutput<A>::size(args_.channels);
    Scratch::Scope scope(queue_.scratch());
    A* memory = scope.template take<A>(cut_.sets * size);
    for (std::int64_t set = 0; set < cut_.sets; ++set) output(set, memory + set * size);
    cut_.for_each_part([&](std::int64_t set, std::int64_t part) {
      apply(set, cut_.begin(part), cut_.size(part), {memory + set * size, args_.channels});
    });
  }

  CpuQueue& queue_;
  const ChannelNormForward& args_;
  ChannelNormCut cut_;
};

template <class A>
void move(const MoveRunningStatistics& args) {
  const A* mean = static_cast<const A*>(args.mean);
  const A* rest = static_cast<const A*>(args.mean_rest);
  const A* variance = static_cast<const A*>(args.variance);
  A* next_mean = static_cast<A*>(args.next_mean);
  A* next_variance = static_cast<A*>(args.next_variance);
  const A momentum = static_cast<A>(args.momentum);
  const A n = static_cast<A>(args.rows);
  const A unbiased = args.rows > 1 ? n / (n - 1) : n;
  for (std::int64_t c = 0; c < args.channels; ++c) {
    next_mean[c] += momentum * ((mean[c] - next_mean[c]) + rest[c]);
    next_variance[c] += momentum * (unbiased * variance[c] - next_variance[c]);
  }
}

}  // namespace

void run(CpuQueue& queue, const ChannelNormForward& args) {
  if (args.is_empty()) return;
  for_dtype("ChannelNormForward", args.dtype,
            [&](auto tag) { Forward<decltype(tag)>(queue, args).run(); });
}

void run(CpuQueue&, const MoveRunningStatistics& args) {
  if (args.rows == 0) return;  // no rows, no statistics
  for_dtype("MoveRunningStatistics", args.dtype,
            [&](auto tag) { move<AccumulatorOf<decltype(tag)>>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::ChannelNormForward)
DTN_DISPATCH(dtn::MoveRunningStatistics)
