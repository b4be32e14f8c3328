// Labels of samples with any number of classes.
#pragma once

#include <cstdint>
#include <string>

#include "dtn/core/tensor.h"

namespace dtn {

// Returns labels [count, K] of a file with a 0 or a 1 for each class, as uint8. Throws DataError,
// which names the file, for another shape, type or value.
Tensor read_label_matrix(const Tensor& labels, std::int64_t count, const std::string& path);

}  // namespace dtn
