// Samples of an epoch, their order, and the share of each rank.
#pragma once

#include <cstdint>
#include <vector>

#include "data/feed/balanced_order.h"
#include "data/feed/batch_groups.h"
#include "data/feed/length_buckets.h"
#include "data/feed/loader_options.h"

namespace dtn {

// Returns the number of samples of an epoch over all ranks, `repeats` times that of a pass. A pass
// has one sample for each image. With `copies` of each image in a row, the number is rounded down
// to a multiple of 256 (if it is at least 256), so a pass ends after 1/copies of the images.
// (RASampler of DeiT, Touvron et al., 2021.) Throws DataError if the number overflows.
std::int64_t epoch_length(std::int64_t images, int repeats, int copies);
// The same for shuffled batches of a source, whose groups may need samples twice (see BatchGroups).
std::int64_t epoch_length(const SampleSource& source, std::int64_t batch_size, int repeats,
                          int copies);

// Returns the rows of a global batch that belong to a rank, ascending. Row i and its mirror image,
// row batch_size - 1 - i, belong to rank min(i, batch_size - 1 - i) mod ranks. Mixing a batch with
// its reverse thus never crosses ranks and pairs the same rows for any number of ranks. Copies in a
// row are spread over the ranks. Shares differ by at most two rows, or by none if 2 x ranks divides
// batch_size.
std::vector<std::int64_t> rows_of_rank(std::int64_t batch_size, int rank, int ranks);

// A sample to be prepared.
struct PlannedSample {
  std::int64_t index;  // in the data set
  std::uint64_t key;   // selects its random numbers; see SampleKey::sample
};

// The samples at positions 0 .. length()-1 of an epoch, over all ranks. Holds the order of one pass
// through the images at a time. Only the constructor allocates.
class EpochPlan {
 public:
  EpochPlan(std::int64_t images, const LoaderOptions& options);

  std::int64_t length() const { return length_; }

  void start(std::int64_t epoch);
  // Returns the sample at a position. Shuffles if the position lies in another pass than the last
  // one; otherwise this is a look-up.
  PlannedSample at(std::int64_t position);

 private:
  void order_pass(std::int64_t pass);

  std::int64_t images_;
  int copies_;
  std::int64_t length_, pass_length_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0, pass_ = -1;
  std::vector<std::int64_t> order_;  // [images], order of pass_; empty without shuffling
  BalancedOrder balanced_;
  LengthBuckets buckets_;
  BatchGroups groups_;
};

// The plan of an epoch by batch and row, for one rank.
class BatchPlan {
 public:
  BatchPlan(std::int64_t images, const LoaderOptions& options);

  // Returns the number of global batches, the same for all ranks.
  std::int64_t batches() const;
  // Returns the number of rows of this rank in a full batch, at least 1 so that a batch has memory.
  std::int64_t most_rows() const;
  std::int64_t rows_of(std::int64_t batch) const;
  // Returns the number of samples of this rank in the whole epoch.
  std::int64_t samples() const;

  void start(std::int64_t epoch) { epoch_.start(epoch); }
  PlannedSample at(std::int64_t batch, std::int64_t row);

 private:
  EpochPlan epoch_;
  std::int64_t batch_size_;
  bool drop_last_;
  std::vector<std::int64_t> rows_;  // this rank's rows of a full global batch
};

}  // namespace dtn
