// Partition of the work of channel_norm.h's CPU kernels, and helpers that both directions share.
#pragma once

#include <type_traits>

#include "kernels/cpu/row_sums.h"
#include "kernels/norm/channel_norm.h"

namespace dtn::DTN_ISA {

// Splits the rows of each set into parts, which are summed separately. If there are many sets, each
// set is a task, which reads its rows again while they are in the cache. Otherwise each part is a
// task. The split depends only on the shape.
struct ChannelNormCut {
  std::int64_t sets, rows, part_rows, parts;
  bool by_set;

  ChannelNormCut(std::int64_t s, std::int64_t r) : sets(s), rows(r), by_set(s >= kManySets) {
    const std::int64_t share = by_set ? kMaxRows : (s * r + kTasks - 1) / kTasks;
    const std::int64_t most = share < kMinRows ? kMinRows : share > kMaxRows ? kMaxRows : share;
    parts = (rows + most - 1) / most;
    part_rows = (rows + parts - 1) / parts;
  }
  std::int64_t begin(std::int64_t part) const { return part * part_rows; }
  std::int64_t size(std::int64_t part) const {
    const std::int64_t left = rows - begin(part);
    return left < part_rows ? left : part_rows;
  }
  // Calls f(set, part) for all parts of all sets, in parallel.
  template <class F>
  void for_each_part(F&& f) const {
    parallel_for(sets * parts, [&](std::int64_t i) { f(i / parts, i % parts); });
  }

 private:
  static constexpr std::int64_t kManySets = 8, kTasks = 128, kMinRows = 32, kMaxRows = 256;
};

// Distance between two arrays of C values in scratch memory.
inline std::int64_t padded(std::int64_t channels) { return (channels + 15) / 16 * 16; }

// Rows that are processed together, so that the values of a column are loaded once for all.
inline constexpr int kChannelRows = 4;

// Statistics of a set, one value per channel: the value of a group is copied to its channels.
template <class A>
struct ChannelStatistics {
  const A *mean, *rest, *variance;  // [C]; rest may be null

  // `memory` holds 3 padded(C) values.
  ChannelStatistics(const void* means, const void* rests, const void* variances, std::int64_t set,
                    std::int64_t channels, std::int64_t groups, A* memory) {
    const std::int64_t size = channels / groups;
    auto spread = [&](const void* from, int slot) -> const A* {
      const A* of_group = static_cast<const A*>(from);
      if (!of_group) return nullptr;
      of_group += set * groups;
      if (size == 1) return of_group;
      A* to = memory + slot * padded(channels);
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t c = g * size; c < (g + 1) * size; ++c) to[c] = of_group[g];
      }
      return to;
    };
    mean = spread(means, 0);
    rest = spread(rests, 1);
    variance = spread(variances, 2);
  }

  template <class N>
  Vec<A> rest_at(std::int64_t c, N count) const {
    return rest ? Vec<A>(load_n(rest + c, count)) : Vec<A>{};
  }
  template <class N>
  Vec<A> rstd_at(std::int64_t c, N count, double eps) const {
    return rsqrt(load_n(variance + c, count) + static_cast<A>(eps));
  }
};

// Weights or biases of a set. If `all` is null, every value is `absent`.
template <class A>
class ChannelGains {
 public:
  ChannelGains(const void* all, std::int64_t stride, std::int64_t set, A absent)
      : values_(all ? static_cast<const A*>(all) + set * stride : nullptr), absent_(absent) {}

  template <class N>
  Vec<A> at(std::int64_t c, N count) const {
    return values_ ? Vec<A>(load_n(values_ + c, count)) : broadcast(absent_);
  }

 private:
  const A* values_;
  A absent_;
};

// Gain and shift of each channel of a set: y = (x - mean) scale + offset.
template <class A>
struct ChannelOutput {
  A *mean, *scale, *offset;

  static std::int64_t size(std::int64_t channels) { return 3 * padded(channels); }
  // `memory` holds size(C) values.
  ChannelOutput(A* memory, std::int64_t channels)
      : mean(memory), scale(memory + padded(channels)), offset(memory + 2 * padded(channels)) {}

  void compute(const ChannelNormArguments& args, std::int64_t set,
               const ChannelStatistics<A>& of) const {
    const ChannelGains<A> weight(args.weight, args.parameter_stride, set, 1);
    const ChannelGains<A> bias(args.bias, args.parameter_stride, set, 0);
    for_each_vector<A>(args.channels, [&](std::int64_t c, auto count) {
      const Vec<A> gain = of.rstd_at(c, count, args.eps) * weight.at(c, count);
      store_n(mean + c, load_n(of.mean + c, count), count);
      store_n(scale + c, gain, count);
      store_n(offset + c, bias.at(c, count) - of.rest_at(c, count) * gain, count);
    });
  }
};

// The gradient of max(y, 0), given that of its value.
template <class V>
V relu_gradient(V y, V dy) {
  return y <= 0 ? V{} : dy;
}

}  // namespace dtn::DTN_ISA
