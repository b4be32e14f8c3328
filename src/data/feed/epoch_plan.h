// Which samples an epoch consists of, and in what order.
#pragma once

#include <cstdint>
#include <vector>

#include "data/feed/loader.h"

namespace dtn {

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
  std::int64_t images_;
  int copies_;
  std::int64_t length_, pass_length_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0, pass_ = -1;
  std::vector<std::int64_t> order_;  // [images], of pass_; empty without shuffling
};

}  // namespace dtn
