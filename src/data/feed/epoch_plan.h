// Which samples an epoch consists of, in what order, and which of them are a rank's.
#pragma once

#include <cstdint>
#include <vector>

#include "data/feed/length_buckets.h"
#include "data/feed/loader_options.h"

namespace dtn {

// The order in which an epoch visits n samples: a permutation of 0 .. n-1 drawn by Fisher and
// Yates' shuffle, or just 0 .. n-1. `repeat` numbers the passes of an epoch.
std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n,
                                      bool shuffle, std::int64_t repeat = 0);

// Samples of an epoch over all ranks, `repeats` times those of a pass: one for each image; or, with
// `copies` of each in a row, as many up to a multiple of 256 below (all, when there are fewer), so
// that a pass ends after 1/copies of the images. (RASampler of DeiT, Touvron et al., 2021.)
// DataError when they cannot be counted.
std::int64_t epoch_length(std::int64_t images, int repeats, int copies);

// The rows of a global batch that are a rank's, ascending: row i and its mirror image, row
// batch_size - 1 - i, belong to rank min(i, batch_size - 1 - i) mod ranks. Mixing a batch with its
// own reverse thus never crosses ranks and finds the same partners whatever their number, while
// copies in a row are spread over the ranks. Shares differ by at most two rows; they are equal
// where 2 x ranks divides batch_size.
std::vector<std::int64_t> rows_of_rank(std::int64_t batch_size, int rank, int ranks);

// A sample to be prepared.
struct PlannedSample {
  std::int64_t index;  // in the data set
  std::uint64_t key;   // names its random numbers, see SampleKey::sample
};

// The samples at positions 0 .. length()-1 of an epoch, over all ranks. Keeps the order of one pass
// through the images at a time, and allocates nothing once it is made.
class EpochPlan {
 public:
  EpochPlan(std::int64_t images, const LoaderOptions& options);

  std::int64_t length() const { return length_; }

  void start(std::int64_t epoch);
  // Shuffles anew whenever the position lies in another pass than the last one; else a look-up.
  PlannedSample at(std::int64_t position);

 private:
  void order_pass(std::int64_t pass);

  std::int64_t images_;
  int copies_;
  std::int64_t length_, pass_length_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0, pass_ = -1;
  std::vector<std::int64_t> order_;  // [images], of pass_; empty without shuffling
  LengthBuckets buckets_;
};

// The same by batch and row, for one rank.
class BatchPlan {
 public:
  BatchPlan(std::int64_t images, const LoaderOptions& options);

  // Global batches, the same for all ranks.
  std::int64_t batches() const;
  // The rows of this rank in a full batch, at least 1 so that a batch has memory.
  std::int64_t most_rows() const;
  std::int64_t rows_of(std::int64_t batch) const;
  // Of the whole epoch, this rank's.
  std::int64_t samples() const;

  void start(std::int64_t epoch) { epoch_.start(epoch); }
  PlannedSample at(std::int64_t batch, std::int64_t row);

 private:
  EpochPlan epoch_;
  std::int64_t batch_size_;
  bool drop_last_;
  std::vector<std::int64_t> rows_;  // of a full global batch, that are this rank's
};

}  // namespace dtn
