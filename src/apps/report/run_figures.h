// Figures of training runs: the values that were logged over the epochs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/report/run_record.h"
#include "plot/page.h"

namespace dtn {

// Runs drawn as one line: a single run, or the seeds of a variant.
struct RunGroup {
  std::string label;
  std::vector<RunRecord> runs;
};

// Width of a figure of curves, in CSS pixels.
inline constexpr double kChartWidth = 720, kMinChartWidth = 300, kMaxChartWidth = 2000;

// Draws training loss, evaluation metrics, learning rate, gradient norm and speed, with one line
// for each group. In figures of evaluations, the lines are sorted by result.
std::vector<plot::Figure> curve_figures(std::span<const RunGroup> groups,
                                        double width = kChartWidth);

// Draws the other records of a run, if they exist: the mixing ratios of DTN, gradient norms by part
// of the model, and training images.
std::vector<plot::Figure> inner_figures(const RunRecord& run);

}  // namespace dtn
