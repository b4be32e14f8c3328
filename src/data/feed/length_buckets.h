// Batches of samples of about equal length, so that little is padded, from an order that is shuffled.
//
// A shuffled pass is cut into windows of a hundred batches, or into four where it has fewer than 400.
// Each window is sorted by length and cut into batches, and the batches of the pass are shuffled. So a
// sample meets others of its length that differ from epoch to epoch, and short and long batches come
// in any order. Within a batch lengths
// ascend: the rows that ranks share in mirrored pairs are then about as long for each of them.
//
// Where passes do not end with a batch, as with data.repeats, the batch that two of them share is
// made up of any samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtn {

class LengthBuckets {
 public:
  // `lengths` of all samples, below 2^40; those of an empty list have none.
  LengthBuckets(std::vector<std::int64_t> lengths, std::int64_t batch_size);

  bool empty() const { return lengths_.empty(); }

  // Puts a shuffled pass of samples, the `pass`-th of an epoch, into an order that depends on it and
  // the other arguments alone. Allocates nothing.
  void arrange(std::span<std::int64_t> order, std::uint64_t seed, std::int64_t epoch,
               std::int64_t pass);

 private:
  void sort(std::span<std::int64_t> window);

  std::vector<std::int64_t> lengths_;
  std::size_t batch_size_;
  std::vector<std::uint64_t> keys_;    // of a window: length, then place
  std::vector<std::int64_t> samples_;  // of a window
};

}  // namespace dtn
