// Evaluates the finished runs of a sweep on the robustness suites that it names. What dtn-eval says of a
// run is kept in its folder as <suite>.json, with its output in <suite>.log.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sweep/sweep.h"
#include "sweep/sweep_plan.h"

namespace dtn {

// In the place of the folder of imagenet-c: its images are made from the clean ones as they are wanted.
inline constexpr const char* kOnTheFly = "on-the-fly";

// "mCE (%)", "ImageNet-R top-1 (%)"
std::string suite_title(const std::string& suite);

// The file of a run that says how it does on a suite.
std::filesystem::path suite_file(const SweepRun& run, const std::string& suite);

// The figure of a suite in percent: mCE for imagenet-c, top-1 for imagenet-r. Nothing when the run has
// not been evaluated on all of it.
std::optional<double> suite_figure(const SweepRun& run, const std::string& suite);

// Evaluates the selected finished runs, one after the other, on those of the sweep's suites whose folder
// is known and whose figure is not. Runs without a checkpoint, which are kept results, are left out. A
// failure does not keep the others from being evaluated.
SweepStatus evaluate_on_suites(const SweepConfig& sweep, const SweepOptions& options,
                               const std::vector<SweepRun>& runs);

}  // namespace dtn
