// What an analysis says in words: where the runs differ most.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/reading.h"

namespace dtn::drawing {

// At most `count` sentences, the largest difference first: each of another quantity, in the layer
// where the medians over the heads of two runs differ by the largest factor. Other runs are
// compared with the first. Of a single run: the quantities that change most from layer to layer.
std::vector<std::string> largest_differences(const std::vector<AnalyzedRun>& runs,
                                             std::size_t count);

}  // namespace dtn::drawing
