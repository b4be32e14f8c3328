// Figures of runs: what was logged over the epochs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plot/page.h"
#include "report/run_record.h"

namespace dtn {

// Runs that are drawn as one line: one, or the seeds of a variant.
struct RunGroup {
  std::string label;
  std::vector<RunRecord> runs;
};

// The loss of training and of evaluations, every other figure of evaluations, learning rate,
// gradient norm and speed: one line for each group. Lines of evaluations are in the order of results.
std::vector<plot::Figure> curve_figures(std::span<const RunGroup> groups);

// What one run keeps beside its curves, where it does: the mixing ratios of DTN, gradient norms by
// part of the model, images it learns from.
std::vector<plot::Figure> inner_figures(const RunRecord& run);

}  // namespace dtn
