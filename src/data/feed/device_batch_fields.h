// Converts a host batch, once it is on the device, into the device batch that a step reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtn/data/sample_source.h"

namespace dtn {

class DeviceBatchFields {
 public:
  // For batches of at most `max_rows` rows. With `fixed_addresses`, every field of the device batch
  // is always at the same address. Otherwise a field that both batches have stays where it is.
  // Throws Error if a field is not in the host batch and the source has no finisher.
  DeviceBatchFields(const SampleSource& source, std::int64_t max_rows, Device device,
                    bool fixed_addresses);

  // Enqueues the conversion of the n rows of `host_batch` into `device_batch`.
  void fill(const Fields& host_batch, std::int64_t n, const BatchKey& key, Fields& device_batch);

 private:
  std::vector<FieldSpec> passed_, made_;  // in both batches; made by the finisher
  Fields buffers_;                        // max_rows rows of fields with their own memory
  std::unique_ptr<BatchFinisher> finisher_;
};

}  // namespace dtn
