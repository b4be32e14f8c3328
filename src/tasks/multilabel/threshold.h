// The threshold of probabilities in the metadata of a file of weights.
#pragma once

#include <optional>
#include <string>

#include "dtn/io/safetensors.h"

namespace dtn {

inline constexpr const char* kThresholdKey = "threshold";

// Returns the text of a threshold, from which stored_threshold() reads the same number.
std::string threshold_text(double threshold);

// Returns the threshold in a file's metadata; nothing if there is none. Throws DataError for
// anything but a number in (0, 1].
std::optional<double> stored_threshold(const StringMap& metadata);

}  // namespace dtn
