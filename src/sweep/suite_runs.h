// Evaluates the finished runs of a sweep on the robustness suites that it names. What dtn-eval says of a
// run is kept in its folder as <suite>.json, with its output in <suite>.log.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweep/sweep.h"
#include "sweep/sweep_plan.h"

namespace dtn {

// In the place of the folder of imagenet-c: its images are made from the clean ones as they are wanted.
inline constexpr const char* kOnTheFly = "on-the-fly";

// What dtn-eval says of a run on a suite, in percent.
struct SuiteResult {
  // ImageNet-C: the mCE, or of images smaller than that is defined for the mean error over their
  // corruptions. ImageNet-R: top-1.
  double figure = 0;
  bool small_images = false;
  // Of ImageNet-C: the top-1 error on the clean images, where it is known, then of each corruption that
  // the figure is a mean of the mean over its severities.
  std::vector<std::pair<std::string, double>> errors;
};

// "mCE (%)", or with small images "error, corrupted (%)"; "ImageNet-R top-1 (%)"
std::string suite_title(const std::string& suite, bool small_images);

// The file of a run that says how it does on a suite.
std::filesystem::path suite_file(const SweepRun& run, const std::string& suite);

// Nothing when the run has not been evaluated on all of the suite.
std::optional<SuiteResult> suite_result(const SweepRun& run, const std::string& suite);

// Evaluates the selected finished runs, one after the other, on those of the sweep's suites whose folder
// is known and whose result is not. Runs without a checkpoint, which are kept results, are left out. A
// failure does not keep the others from being evaluated.
SweepStatus evaluate_on_suites(const SweepConfig& sweep, const SweepOptions& options,
                               const std::vector<SweepRun>& runs);

}  // namespace dtn
