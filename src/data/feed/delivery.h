// Converts the fields that are carried to a device into the fields that a step reads there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtn/data/sample_source.h"

namespace dtn {

class Delivery {
 public:
  // For batches of at most `most_rows` rows. With `fixed_addresses`, every delivered field is
  // always at the same address. Otherwise a field that is delivered as it was carried stays where
  // it is. Throws Error if a field is neither carried nor made by the source's finisher.
  Delivery(const SampleSource& source, std::int64_t most_rows, Device device, bool fixed_addresses);

  // Enqueues the conversion of the n carried rows into `delivered`.
  void deliver(const Fields& carried, std::int64_t n, const BatchKey& key, Fields& delivered);

 private:
  std::vector<FieldSpec> passed_, made_;  // delivered as carried; made by the finisher
  Fields buffers_;                        // most_rows rows of fields with their own memory
  std::unique_ptr<BatchFinisher> finisher_;
};

}  // namespace dtn
