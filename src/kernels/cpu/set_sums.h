// Sums over the rows of each of several sets, such as the tokens of each sample. Every set has the
// same number of rows. Partial sums per chunk of rows are added in order. The shape fixes the
// chunks, so the result does not depend on the number of threads.
#pragma once

#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {

// Rows that the kernels of layer_norm.h and modulate.h have in a chunk, at least. Both must cut
// alike, so that a fused kernel and separate kernels add in the same order.
inline constexpr std::int64_t kSetChunkRows = 4;

// Calls visit(begin, end, sums) for chunks [begin, end) of rows, each within one set. It adds the
// terms of its rows to sums[k][channels], k < kOutputs, which begin at zero. Then
// finish(set, k, c, count, sum) gets the vectors of totals, of which the first `count` lanes are
// valid.
template <class A, int kOutputs, class Visit, class Finish>
void sum_set_rows(CpuQueue& queue, std::int64_t sets, std::int64_t rows, std::int64_t channels,
                  Visit&& visit, Finish&& finish) {
  if (sets <= 0) return;
  const std::int64_t wanted = (kRowChunks + sets - 1) / sets;  // chunks per set
  std::int64_t grain = (rows + wanted - 1) / wanted;
  if (grain < kSetChunkRows) grain = kSetChunkRows;
  const std::int64_t chunks = (rows + grain - 1) / grain;
  const std::int64_t stride = (channels + 15) / 16 * 16;
  Scratch::Scope scope(queue.scratch());
  A* partials = scope.take<A>(sets * chunks * kOutputs * stride);
  parallel_for(sets * chunks, [&](std::int64_t chunk) {
    const std::int64_t first = chunk / chunks * rows, begin = chunk % chunks * grain;
    const std::int64_t end = begin + grain < rows ? begin + grain : rows;
    A* sums[kOutputs];
    for (int k = 0; k < kOutputs; ++k) {
      sums[k] = partials + (chunk * kOutputs + k) * stride;
      for (std::int64_t c = 0; c < stride; ++c) sums[k][c] = 0;
    }
    visit(first + begin, first + end, sums);
  });
  parallel_for(sets, [&](std::int64_t set) {
    for (int k = 0; k < kOutputs; ++k) {
      const A* of_set = partials + (set * chunks * kOutputs + k) * stride;
      for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
        Vec<A> sum{};
        for (std::int64_t i = 0; i < chunks; ++i) {
          sum += load_n(of_set + i * kOutputs * stride + c, count);
        }
        finish(set, k, c, count, sum);
      });
    }
  });
}

}  // namespace dtn::DTN_ISA
