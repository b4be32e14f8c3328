// Sums over the rows of a matrix, for kernels whose backward pass sums parameter gradients while it
// iterates over rows. Partial sums per chunk of rows are added in order. The shape fixes the
// chunks, so the result does not depend on the number of threads.
#pragma once

#include "core/queue.h"
#include "dtn/core/parallel.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

// Few enough chunks to add quickly, and enough to keep many threads busy.
inline constexpr std::int64_t kRowChunks = 64;

// Calls visit(begin, end, sums) for chunks of at least `least` rows. It adds the terms of its rows
// to sums[k][channels], k < kOutputs, which begin at zero. Then finish(k, c, count, sum) gets the
// vectors of totals, of which the first `count` lanes are valid.
template <class A, int kOutputs, class Visit, class Finish>
void sum_rows(CpuQueue& queue, std::int64_t rows, std::int64_t channels, std::int64_t least,
              Visit&& visit, Finish&& finish) {
  std::int64_t grain = (rows + kRowChunks - 1) / kRowChunks;
  if (grain < least) grain = least;
  const std::int64_t chunks = (rows + grain - 1) / grain;
  const std::int64_t stride = (channels + 15) / 16 * 16;
  Scratch::Scope scope(queue.scratch());
  A* partials = scope.take<A>(chunks * kOutputs * stride);
  parallel_ranges(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    A* sums[kOutputs];
    for (int k = 0; k < kOutputs; ++k) {
      sums[k] = partials + (begin / grain * kOutputs + k) * stride;
      for (std::int64_t c = 0; c < channels; ++c) sums[k][c] = 0;
    }
    visit(begin, end, sums);
  });
  for (int k = 0; k < kOutputs; ++k) {
    for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
      Vec<A> sum{};
      for (std::int64_t i = 0; i < chunks; ++i) {
        sum += load_n(partials + (i * kOutputs + k) * stride + c, count);
      }
      finish(k, c, count, sum);
    });
  }
}

// Like sum_rows(), but adds each total to totals[k] unless that is null.
template <class A, int kOutputs, class Visit>
void add_row_sums(CpuQueue& queue, std::int64_t rows, std::int64_t channels, std::int64_t least,
                  void* const (&totals)[kOutputs], Visit&& visit) {
  sum_rows<A, kOutputs>(queue, rows, channels, least, visit,
                        [&](int k, std::int64_t c, auto count, Vec<A> sum) {
                          A* total = static_cast<A*>(totals[k]);
                          if (total) store_n(total + c, load_n(total + c, count) + sum, count);
                        });
}

// Calls visit(row, rows) for all rows in [begin, end), kTogether at a time and then one by one;
// `rows` is a compile-time constant.
template <int kTogether, class Visit>
void for_each_group(std::int64_t begin, std::int64_t end, Visit&& visit) {
  std::int64_t row = begin;
  for (; row + kTogether <= end; row += kTogether) {
    visit(row, std::integral_constant<int, kTogether>{});
  }
  for (; row < end; ++row) visit(row, std::integral_constant<int, 1>{});
}

// Rows in a chunk of about 64 KB, for passes that only iterate.
inline std::int64_t row_grain(std::int64_t channels) {
  return channels < 16384 ? 16384 / channels : 1;
}

// Calls f(row) for all rows of `channels` values, in parallel.
template <class F>
void for_each_row(std::int64_t rows, std::int64_t channels, F&& f) {
  parallel_ranges(rows, row_grain(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

}  // namespace dtn::DTN_ISA
