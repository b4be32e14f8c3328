// From the fields that were carried to a device to those that a step sees there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtn/data/sample_source.h"

namespace dtn {

class Delivery {
 public:
  // For batches of at most `most_rows` rows. With `fixed_addresses` every delivered field comes to
  // the same address; else one that is carried stays where it is. Throws Error when a field is
  // neither carried nor made by the source's finisher.
  Delivery(const SampleSource& source, std::int64_t most_rows, Device device, bool fixed_addresses);

  // Enqueues for computing what makes of the n rows that were carried those in `delivered`.
  void deliver(const Fields& carried, std::int64_t n, const BatchKey& key, Fields& delivered);

 private:
  std::vector<FieldSpec> passed_, made_;  // as they were carried; by the finisher
  Fields buffers_;                        // most_rows of what has an address of its own
  std::unique_ptr<BatchFinisher> finisher_;
};

}  // namespace dtn
