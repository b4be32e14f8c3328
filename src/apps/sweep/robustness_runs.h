// Evaluates the finished runs of a sweep on its robustness suites. The result of dtn-eval is stored
// in the run's folder as <suite>.json, and its output in <suite>.log.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_plan.h"

namespace dtn {

// Used in place of imagenet-c's folder: the evaluation generates the images from the clean ones.
inline constexpr const char* kOnTheFly = "on-the-fly";

// Result for the images of one corruption, or for the clean images ("clean").
struct CorruptionResult {
  std::string name;
  double error = 0;          // top-1 error in percent, the mean over the severities
  std::optional<double> ce;  // error relative to AlexNet's in percent; only in the benchmark
};

// Result of dtn-eval for a run on a suite, in percent.
struct RobustnessResult {
  // ImageNet-C: the mCE; for images too small for the mCE, the mean error over their corruptions.
  // ImageNet-R: top-1.
  double figure = 0;
  bool small_images = false;
  // ImageNet-C: the clean images, if known, then each corruption that `figure` covers.
  std::vector<CorruptionResult> corruptions;
};

// Returns "mCE (%)", or "error, corrupted (%)" for small images; "ImageNet-R top-1 (%)".
std::string suite_title(const std::string& suite, bool small_images);

// Returns the path of a run's result on a suite.
std::filesystem::path suite_file(const SweepRun& run, const std::string& suite);

// Returns nothing if the run has not been evaluated on the whole suite.
std::optional<RobustnessResult> robustness_result(const SweepRun& run, const std::string& suite);

// Evaluates the selected finished runs, one after the other, on the sweep's suites that have a
// known folder and no result yet. Skips runs without a checkpoint, which are archived results.
// Continues with the other runs after a failure.
SweepStatus evaluate_on_suites(const SweepConfig& sweep, const SweepOptions& options,
                               const std::vector<SweepRun>& runs);

}  // namespace dtn
