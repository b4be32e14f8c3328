// Normalization along the rows, backward; see channel_norm.h for the formulas. The kernels read the
// rows as in the forward pass: once for the sums, and again for dx, from the cache if a set fits
// there. For each channel,
//    dx = outer ((dy inner - level) - (x - mean) slope) + dx_add
// A group of one channel has inner = 1, so that a single row gives exactly dx = dx_add.
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/norm/channel_norm_parts.h"

namespace dtn::DTN_ISA {
namespace {

// Sums over one set or part, for each channel: of dy, and of dy (x - mean) or dy xhat.
template <class A>
struct Sums {
  A *dy, *dot;

  static std::int64_t size(std::int64_t channels) { return 2 * padded(channels); }
  Sums(A* memory, std::int64_t channels) : dy(memory), dot(memory + padded(channels)) {}

  void clear(std::int64_t channels) const {
    for (std::int64_t c = 0; c < channels; ++c) dy[c] = dot[c] = 0;
  }
  void add(const Sums& other, std::int64_t channels) const {
    for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
      store_n(dy + c, load_n(dy + c, count) + load_n(other.dy + c, count), count);
      store_n(dot + c, load_n(dot + c, count) + load_n(other.dot + c, count), count);
    });
  }
};

// Coefficients of dx, for each channel.
template <class A>
struct Coefficients {
  A *inner, *outer, *level, *slope;
  ChannelOutput<A> y;

  static std::int64_t size(std::int64_t channels) {
    return 4 * padded(channels) + ChannelOutput<A>::size(channels);
  }
  Coefficients(A* memory, std::int64_t channels)
      : inner(memory),
        outer(memory + padded(channels)),
        level(memory + 2 * padded(channels)),
        slope(memory + 3 * padded(channels)),
        y(memory + 4 * padded(channels), channels) {}
};

// total[c] += sum of values[set * stride + c] over the sets.
template <class A>
void add_sets(const A* values, std::int64_t sets, std::int64_t stride, std::int64_t channels,
              A* total) {
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    Vec<A> sum{};
    for (std::int64_t set = 0; set < sets; ++set) sum += load_n(values + set * stride + c, count);
    store_n(total + c, load_n(total + c, count) + sum, count);
  });
}

template <class T>
class Backward {
  using A = AccumulatorOf<T>;

 public:
  Backward(CpuQueue& queue, const ChannelNormBackward& args)
      : queue_(queue),
        args_(args),
        channels_(args.channels),
        cut_(args.sets, args.rows),
        wants_dx_(args.dx && args.part != ChannelNormPart::kStatistics),
        wants_gradients_(args.part != ChannelNormPart::kApplication &&
                         (args.dweight || args.dbias)) {
    const bool read_by_dx = wants_dx_ && !args.frozen;
    gathers_ = args.part == ChannelNormPart::kStatistics || wants_gradients_ ||
               (read_by_dx && args.part == ChannelNormPart::kWhole);
  }

  void run() {
    Scratch::Scope scope(queue_.scratch());
    sums_ = static_cast<A*>(args_.sums);
    if (!sums_ && gathers_) sums_ = scope.template take<A>(cut_.sets * 2 * channels_);
    if (cut_.by_set) {
      parallel_for(cut_.sets, [&](std::int64_t set) {
        if (gathers_) gather_set(set);
        if (wants_dx_) differentiate_set(set);
      });
    } else {
      if (gathers_) gather_parts();
      if (wants_dx_) differentiate_parts();
    }
    if (wants_gradients_) add_gradients();
  }

 private:
  template <class P>
  auto at(P* base, std::int64_t set, std::int64_t row) const {
    using Element = std::conditional_t<std::is_const_v<P>, const T, T>;
    return base ? static_cast<Element*>(base) + (set * args_.rows + row) * channels_ : nullptr;
  }
  A* sums_of(std::int64_t set) const { return sums_ + set * 2 * channels_; }

  ChannelStatistics<A> statistics(std::int64_t set, Scratch::Scope& scope) const {
    return {args_.mean,
            args_.mean_rest,
            args_.variance,
            set,
            channels_,
            args_.groups,
            scope.template take<A>(3 * padded(channels_))};
  }

  // Returns the output of a set, from which `relu` follows; without it only the means.
  ChannelOutput<A> output(std::int64_t set, Scratch::Scope& scope) const {
    const ChannelOutput<A> to(scope.template take<A>(ChannelOutput<A>::size(channels_)), channels_);
    to.compute(args_, set, statistics(set, scope));
    return to;
  }

  // Adds some rows to the sums.
  template <bool kRelu>
  void gather(std::int64_t set, std::int64_t first, std::int64_t rows, const ChannelOutput<A>& y,
              const Sums<A>& sums) const {
    const T* x = at(args_.x, set, first);
    const T* dy = at(args_.dy, set, first);
    for_each_group<kChannelRows>(0, rows, [&](std::int64_t row, auto together) {
      const std::int64_t begin = row * channels_;
      for_each_vector<A>(channels_, [&](std::int64_t c, auto count) {
        const Vec<A> mean = load_n(y.mean + c, count);
        Vec<A> scale{}, offset{};
        if constexpr (kRelu) {
          scale = load_n(y.scale + c, count);
          offset = load_n(y.offset + c, count);
        }
        Vec<A> sum{}, dot{};
        for (int r = 0; r < together; ++r) {
          const std::int64_t i = begin + r * channels_ + c;
          Vec<A> g = load_n(dy + i, count);
          const Vec<A> centred = load_n(x + i, count) - mean;
          if constexpr (kRelu) g = relu_gradient(Vec<A>(centred * scale + offset), g);
          sum += g;
          dot += g * centred;
        }
        store_n(sums.dy + c, load_n(sums.dy + c, count) + sum, count);
        store_n(sums.dot + c, load_n(sums.dot + c, count) + dot, count);
      });
    });
  }
  void gather(std::int64_t set, std::int64_t first, std::int64_t rows, const ChannelOutput<A>& y,
              const Sums<A>& sums) const {
    args_.relu ? gather<true>(set, first, rows, y, sums) : gather<false>(set, first, rows, y, sums);
  }

  // Converts the sums of dy (x - mean) to sums of dy xhat and stores both sums.
  void store(std::int64_t set, const ChannelStatistics<A>& of, const Sums<A>& sums) const {
    A* to = sums_of(set);
    for_each_vector<A>(channels_, [&](std::int64_t c, auto count) {
      const Vec<A> dy = load_n(sums.dy + c, count), dot = load_n(sums.dot + c, count);
      const Vec<A> rstd = of.rstd_at(c, count, args_.eps);
      store_n(to + c, dy, count);
      store_n(to + channels_ + c, Vec<A>((dot - of.rest_at(c, count) * dy) * rstd), count);
    });
  }

  void gather_set(std::int64_t set) const {
    Scratch::Scope scope(queue_.scratch());
    const ChannelOutput<A> y = output(set, scope);
    const std::int64_t size = Sums<A>::size(channels_);
    A* memory = scope.template take<A>(2 * size);
    const Sums<A> all(memory, channels_), more(memory + size, channels_);
    all.clear(channels_);
    gather(set, 0, cut_.size(0), y, all);
    for (std::int64_t part = 1; part < cut_.parts; ++part) {
      more.clear(channels_);
      gather(set, cut_.begin(part), cut_.size(part), y, more);
      all.add(more, channels_);
    }
    store(set, statistics(set, scope), all);
  }

  void gather_parts() const {
    const std::int64_t size = Sums<A>::size(channels_);
    Scratch::Scope scope(queue_.scratch());
    A* memory = scope.template take<A>(cut_.sets * cut_.parts * size);
    auto sums = [&](std::int64_t set, std::int64_t part) {
      return Sums<A>(memory + (set * cut_.parts + part) * size, channels_);
    };
    cut_.for_each_part([&](std::int64_t set, std::int64_t part) {
      Scratch::Scope inner(queue_.scratch());
      sums(set, part).clear(channels_);
      gather(set, cut_.begin(part), cut_.size(part), output(set, inner), sums(set, part));
    });
    for (std::int64_t set = 0; set < cut_.sets; ++set) {
      for (std::int64_t part = 1; part < cut_.parts; ++part) {
        sums(set, 0).add(sums(set, part), channels_);
      }
      Scratch::Scope inner(queue_.scratch());
      store(set, statistics(set, inner), sums(set, 0));
    }
  }

  // Adds the sums to the parameter gradients: over all sets, or set by set.
  void add_gradients() const {
    const std::int64_t together = args_.parameter_stride ? 1 : cut_.sets;
    for (std::int64_t set = 0; set < cut_.sets; set += together) {
      const std::int64_t offset = set * args_.parameter_stride;
      auto add = [&](void* gradient, const A* sums) {
        if (!gradient) return;
        add_sets(sums, together, 2 * channels_, channels_, static_cast<A*>(gradient) + offset);
      };
      add(args_.dbias, sums_of(set));
      add(args_.dweight, sums_of(set) + channels_);
    }
  }

  void prepare(std::int64_t set, const Coefficients<A>& k) const {
    Scratch::Scope scope(queue_.scratch());
    const ChannelStatistics<A> of = statistics(set, scope);
    const ChannelGains<A> weight(args_.weight, args_.parameter_stride, set, 1);
    const bool alone = args_.groups == channels_ && !args_.weighted_sums;
    if (!args_.frozen) take_means(set, weight, k);
    k.y.compute(args_, set, of);
    for_each_vector<A>(channels_, [&](std::int64_t c, auto count) {
      const Vec<A> rstd = of.rstd_at(c, count, args_.eps), w = weight.at(c, count);
      store_n(k.inner + c, alone ? broadcast(A(1)) : w, count);
      store_n(k.outer + c, alone ? Vec<A>(rstd * w) : rstd, count);
      if (args_.frozen) return;
      const Vec<A> slope = load_n(k.slope + c, count) * rstd;
      store_n(k.slope + c, slope, count);
      const Vec<A> level = load_n(k.level + c, count) - of.rest_at(c, count) * slope;
      store_n(k.level + c, level, count);
    });
  }

  // Sets level and slope to the means of dy inner and dy inner xhat over the group.
  void take_means(std::int64_t set, const ChannelGains<A>& weight, const Coefficients<A>& k) const {
    const std::int64_t size = channels_ / args_.groups;
    const std::int64_t n = (args_.total_rows ? args_.total_rows : args_.rows) * size;
    const std::int64_t n_dot = args_.unbiased && n > 1 ? n - 1 : n;
    const A share = A(1) / static_cast<A>(n), share_dot = A(1) / static_cast<A>(n_dot);
    const A *dy = sums_of(set), *dot = dy + channels_;
    if (size == 1) {  // the sums and `inner` are both weighted, or neither is
      for_each_vector<A>(channels_, [&](std::int64_t c, auto count) {
        store_n(k.level + c, Vec<A>(load_n(dy + c, count) * share), count);
        store_n(k.slope + c, Vec<A>(load_n(dot + c, count) * share_dot), count);
      });
      return;
    }
    for (std::int64_t first = 0; first < channels_; first += size) {
      Vec<A> sum{}, sum_dot{};
      for_each_vector<A>(size, [&](std::int64_t i, auto count) {
        const Vec<A> w = weight.at(first + i, count);
        sum += load_n(dy + first + i, count) * w;
        sum_dot += load_n(dot + first + i, count) * w;
      });
      const Vec<A> level = broadcast(reduce_add(sum) * share);
      const Vec<A> slope = broadcast(reduce_add(sum_dot) * share_dot);
      for_each_vector<A>(size, [&](std::int64_t i, auto count) {
        store_n(k.level + first + i, level, count);
        store_n(k.slope + first + i, slope, count);
      });
    }
  }

  template <bool kFrozen, bool kRelu>
  void differentiate(std::int64_t set, std::int64_t first, std::int64_t rows,
                     const Coefficients<A>& k) const {
    const T* x = at(args_.x, set, first);
    const T* dy = at(args_.dy, set, first);
    const T* add = at(args_.dx_add, set, first);
    T* dx = at(args_.dx, set, first);
    for_each_group<kChannelRows>(0, rows, [&](std::int64_t row, auto together) {
      const std::int64_t begin = row * channels_;
      for_each_vector<A>(channels_, [&](std::int64_t c, auto count) {
        const Vec<A> inner = load_n(k.inner + c, count), outer = load_n(k.outer + c, count);
        Vec<A> mean{}, level{}, slope{}, scale{}, offset{};
        if constexpr (!kFrozen || kRelu) mean = load_n(k.y.mean + c, count);
        if constexpr (!kFrozen) {
          level = load_n(k.level + c, count);
          slope = load_n(k.slope + c, count);
        }
        if constexpr (kRelu) {
          scale = load_n(k.y.scale + c, count);
          offset = load_n(k.y.offset + c, count);
        }
        for (int r = 0; r < together; ++r) {
          const std::int64_t i = begin + r * channels_ + c;
          Vec<A> d = load_n(dy + i, count), centred{};
          if constexpr (!kFrozen || kRelu) centred = load_n(x + i, count) - mean;
          if constexpr (kRelu) d = relu_gradient(Vec<A>(centred * scale + offset), d);
          d *= inner;
          if constexpr (!kFrozen) d = (d - level) - centred * slope;
          d *= outer;
          if (add) d += load_n(add + i, count);
          store_n(dx + i, d, count);
        }
      });
    });
  }
  void differentiate(std::int64_t set, std::int64_t first, std::int64_t rows,
                     const Coefficients<A>& k) const {
    if (args_.relu) {
      args_.frozen ? differentiate<true, true>(set, first, rows, k)
                   : differentiate<false, true>(set, first, rows, k);
    } else {
      args_.frozen ? differentiate<true, false>(set, first, rows, k)
                   : differentiate<false, false>(set, first, rows, k);
    }
  }

  void differentiate_set(std::int64_t set) const {
    Scratch::Scope scope(queue_.scratch());
    const Coefficients<A> k(scope.template take<A>(Coefficients<A>::size(channels_)), channels_);
    prepare(set, k);
    differentiate(set, 0, args_.rows, k);
  }

  void differentiate_parts() const {
    const std::int64_t size = Coefficients<A>::size(channels_);
    Scratch::Scope scope(queue_.scratch());
    A* memory = scope.template take<A>(cut_.sets * size);
    auto coefficients = [&](std::int64_t set) {
      return Coefficients<A>(memory + set * size, channels_);
    };
    for (std::int64_t set = 0; set < cut_.sets; ++set) prepare(set, coefficients(set));
    cut_.for_each_part([&](std::int64_t set, std::int64_t part) {
      differentiate(set, cut_.begin(part), cut_.size(part), coefficients(set));
    });
  }

  CpuQueue& queue_;
  const ChannelNormBackward& args_;
  std::int64_t channels_;
  ChannelNormCut cut_;
  bool wants_dx_, wants_gradients_, gathers_;
  A* sums_ = nullptr;
};

}  // namespace

void run(CpuQueue& queue, const ChannelNormBackward& args) {
  if (args.is_empty()) return;
  for_dtype("ChannelNormBackward", args.dtype,
            [&](auto tag) { Backward<decltype(tag)>(queue, args).run(); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::ChannelNormBackward)
