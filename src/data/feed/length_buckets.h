// Batches of samples of similar length, for less padding, from a shuffled order.
//
// A shuffled pass is cut into windows of a hundred batches, or into four windows if it has fewer
// than 400 batches. Each window is sorted by length and cut into batches. Then the batches of the
// than 400 batches. Each window is sorted by length and cut into batches. Then the batches of the
// pass are shuffled. A sample thus meets different samples of its length in each epoch, and short
// and long batches come in any order. Within a batch, lengths ascend. Ranks share rows in mirrored
// pairs, so the rows of all ranks have similar lengths.
//
// If passes do not end with a batch, as with data.repeats, two passes share a batch of any samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtn {

class LengthBuckets {
 public:
  // `lengths`: the lengths of all samples, below 2^40; empty if samples have no lengths.
  LengthBuckets(std::vector<std::int64_t> lengths, std::int64_t batch_size);

  bool empty() const { return lengths_.empty(); }

  // Rearranges a shuffled pass of samples, the `pass`-th of an epoch. The result depends only on
  // the arguments. Allocates nothing.
  void arrange(std::span<std::int64_t> order, std::uint64_t seed, std::int64_t epoch,
               std::int64_t pass);

 private:
  void sort(std::span<std::int64_t> window);

  std::vector<std::int64_t> lengths_;
  std::size_t batch_size_;
  std::vector<std::uint64_t> keys_;    // keys of a window: length, then place
  std::vector<std::int64_t> samples_;  // samples of a window
};

}  // namespace dtn
