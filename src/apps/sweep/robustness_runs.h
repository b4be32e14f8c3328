// Evaluates the finished runs of a sweep on its robustness suites. The result of dtn-eval is stored
// in the run's folder as <suite>.json, with its inputs, and its output in <suite>.log. An
// unfinished evaluation is in <suite>-<inputs>.partial.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_plan.h"

namespace dtn {

// Used in place of imagenet-c's folder: the evaluation generates the images from the clean ones.
inline constexpr const char* kOnTheFly = "on-the-fly";
// Source of images that come from a folder. Its path says nothing on another machine.
inline constexpr const char* kFolder = "folder";

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
  bool stand_in_frost = false;  // the pictures of frost are generated
  // Source of the images: kOnTheFly or kFolder; empty in results of earlier versions.
  std::string source;
  // Fingerprints of the images that `figure` covers, by corruption and severity; empty if unknown.
  std::map<std::string, std::string> images;
};

// Returns "mCE (%)", or "error, corrupted (%)" for small images; "ImageNet-R top-1 (%)".
std::string suite_title(const std::string& suite, bool small_images);

// Returns the path of a run's result on a suite.
std::filesystem::path suite_file(const SweepRun& run, const std::string& suite);

// Returns nothing if the run has not been evaluated on the whole suite, or if the result has other
// inputs: another step, other weights (raw or averaged), or another source than in `roots`. Without
// a root, every source counts. A result of an earlier version has no inputs, and counts.
std::optional<RobustnessResult> robustness_result(const SweepConfig& sweep, const SweepRun& run,
                                                  const std::string& suite,
                                                  const SuiteRoots& roots = {});

// True if both results come from the same images, or if their sources are equal and the images of
// one are unknown.
bool same_images(const RobustnessResult& a, const RobustnessResult& b);

// Evaluates the selected finished runs, one after the other, on the sweep's suites that have a
// known folder and no result yet. Skips runs without a checkpoint, which are archived results.
// Continues with the other runs after a failure.
SweepStatus evaluate_on_suites(const SweepConfig& sweep, const SweepOptions& options,
                               const std::vector<SweepRun>& runs);

}  // namespace dtn
