// How the variants of a sweep do on each corruption of ImageNet-C: what stands behind the one figure of
// the sweep's own table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sweep/sweep_report.h"

namespace dtn {

// A corruption, "clean", or "mean", which is that over the corruptions.
struct CorruptionRow {
  struct Cell {
    std::optional<Statistics> error;  // top-1 error in percent, over the seeds
    // 100 times the error over that of the baseline's run from the same seed, mean over the seeds that
    // both have. Of "mean" it is the mean of the corruptions' ratios, as a mCE is.
    std::optional<double> to_baseline;
  };
  std::string name;
  std::vector<Cell> cells;  // of each variant
};

// Empty when no run was evaluated on ImageNet-C.
std::vector<CorruptionRow> corruption_rows(const std::vector<VariantResult>& results,
                                           std::optional<std::size_t> baseline);

// A heading and a table of the variants that were evaluated; empty when there are none.
std::string corruption_markdown(const SweepReport& report);

}  // namespace dtn
