// Labels of samples with any number of classes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

// Labels of an image: exactly one, or any number.
enum class LabelsPerImage { kOne, kAny };

// Returns labels [samples, classes] as uint8: 1 for the classes of lists[list_of[i]] in row i.
// Throws DataError if they would need more than 16 GiB.
Tensor label_matrix(std::span<const std::int32_t> list_of,
                    std::span<const std::vector<std::int32_t>> lists, std::int64_t classes);

// Returns labels [count, K] of a file with a 0 or a 1 for each class, as uint8. Throws DataError,
// which names the file, for another shape, type or value.
Tensor read_label_matrix(const Tensor& labels, std::int64_t count, const std::string& path);

}  // namespace dtn
