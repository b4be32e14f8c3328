// Shared by the forward and backward kernels of DTN with full position matrices: the matrices in
// the order in which `pass` reads them, and the division of work.
#pragma once

#include "kernels/dtn/dtn_dense.h"
#include "kernels/dtn/dtn_norm_parts.h"

namespace dtn::DTN_ISA {

// Number of images that a task processes with one head: small enough to keep many threads busy.
inline std::int64_t images_per_task(std::int64_t batch, std::int64_t heads) {
  constexpr std::int64_t kTasks = 32;
  const std::int64_t chunks = (kTasks + heads - 1) / heads;
  return batch > chunks ? (batch + chunks - 1) / chunks : 1;
}

// The lane group to prefetch: the group after the one at `channel` of head h of image b. After the
// last group of the head it is the head's first group in the next image. image == batch: no group.
struct NextGroup {
  std::int64_t image, channel;

  NextGroup(const DtnSizes& sizes, std::int64_t b, std::int64_t h, std::int64_t next_channel)
      : image(b), channel(next_channel) {
    if (channel < (h + 1) * sizes.head_dim) return;
    channel = h * sizes.head_dim;
    ++image;
  }
};

// The matrices P, and optionally their transposes, in the order in which `pass` reads a matrix; for
// as many heads as fit a memory budget.
template <class A>
class PackedPositions {
 public:
  PackedPositions(const void* positions, std::int64_t n, std::int64_t heads, bool transposed,
                  Scratch::Scope& scope)
      : positions_(static_cast<const A*>(positions)),
        n_(n),
        heads_(heads),
        kinds_(transposed ? 2 : 1),
        wave_((std::int64_t{64} << 20) / static_cast<std::int64_t>(sizeof(A)) / (kinds_ * n * n)) {
    if (wave_ < 1) wave_ = 1;
    if (wave_ > heads) wave_ = heads;
    memory_ = scope.take<A>(wave_ * kinds_ * n * n);
  }

  // Calls f(first head, heads) for each wave of heads, after packing their matrices.
  template <class F>
  void for_each_wave(F&& f) {
    for (begin_ = 0; begin_ < heads_; begin_ += wave_) {
      const std::int64_t count = heads_ - begin_ < wave_ ? heads_ - begin_ : wave_;
      parallel_for(count, [&](std::int64_t i) { pack(begin_ + i); });
      f(begin_, count);
    }
  }
  std::int64_t wave() const { return wave_; }

  const A* apply(std::int64_t head) const { return at(head); }
  const A* apply_transposed(std::int64_t head) const { return at(head) + n_ * n_; }

 private:
  A* at(std::int64_t head) const { return memory_ + (head - begin_) * kinds_ * n_ * n_; }

  void pack(std::int64_t head) const {
    const A* p = positions_ + head * n_ * n_;
    for_each_pass_block(n_, kPassBlock, [&](std::int64_t first, std::int64_t size) {
      A *plain = at(head) + first * n_, *transposed = plain + n_ * n_;
      for (std::int64_t j = 0; j < n_; ++j) {
        for (std::int64_t k = 0; k < size; ++k) {
          plain[j * size + k] = p[(first + k) * n_ + j];
          if (kinds_ == 2) transposed[j * size + k] = p[j * n_ + first + k];
        }
      }
    });
  }

  const A* positions_;
  std::int64_t n_, heads_, kinds_, wave_, begin_ = 0;
  A* memory_;
};

}  // namespace dtn::DTN_ISA
