// Results of a sweep's variants on each corruption of ImageNet-C. The sweep's own table has only
// one figure for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/sweep/sweep_report.h"

namespace dtn {

// A corruption, "clean", or "mean": the mean over the corruptions.
struct CorruptionRow {
  struct Cell {
    std::optional<Statistics> error;  // top-1 error in percent, over the seeds
    // 100 x error / error of the baseline's run from the same seed, averaged over the seeds that
    // both have. For "mean": the mean of the corruptions' ratios, as in the mCE.
    std::optional<double> to_baseline;
  };
  std::string name;
  std::vector<Cell> cells;  // one per variant
};

// Returns nothing if no run was evaluated on ImageNet-C.
std::vector<CorruptionRow> corruption_rows(const std::vector<VariantResult>& results,
                                           std::optional<std::size_t> baseline);

// Returns a heading and a table of the evaluated variants; empty if there are none.
std::string corruption_markdown(const SweepReport& report);

}  // namespace dtn
