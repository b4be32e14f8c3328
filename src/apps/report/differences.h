// Describes in words where the analysed runs differ most.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/report/analysis_json.h"

namespace dtn::drawing {

// Returns at most `count` sentences, the largest difference first. Each covers one quantity, in the
// layer where the medians over the heads of two runs differ by the largest factor. All runs are
// compared with the first. For a single run: the quantities that vary most over the layers.
std::vector<std::string> largest_differences(const std::vector<AnalyzedRun>& runs,
                                             std::size_t count);

}  // namespace dtn::drawing
