// One sample of a source, outside of batches.
#pragma once

#include <cstdint>

#include "dtn/core/fields.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Returns the device fields of a sample in epoch 0, with one row each, on the host. Throws
// DataError if the sample is damaged.
Fields single_sample(const SampleSource& source, std::int64_t index, std::uint64_t seed);

}  // namespace dtn
