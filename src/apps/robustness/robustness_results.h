// Results of a suite: as a table of corruptions, to JSON, and from JSON; and the summary of the
// errors under the corruptions of ImageNet-C (D. Hendrycks and T. Dietterich, "Benchmarking Neural
// Network Robustness to Common Corruptions and Perturbations", ICLR 2019, section 4.2).
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/robustness/robustness.h"
#include "data/corrupt/corruptions.h"

namespace dtn {

// AlexNet's top-1 error, the mean over the five severities, in [0, 1]. Zero outside the benchmark.
double alexnet_error(const Corruption& corruption);

// Top-1 errors in percent, by severity; empty if there were no images.
using SeverityErrors = std::array<std::optional<double>, kSeverities>;

// Returns the mean over the severities, or nothing unless all five exist: the mean of some
// severities says nothing about the others.
std::optional<double> mean_error(const SeverityErrors& errors);

// Corruption error CE in percent: the sum over severities of the model's error, divided by the sum
// of AlexNet's. With five severities each, this is the ratio of the means.
std::optional<double> corruption_error(const Corruption& corruption, const SeverityErrors& errors);

// Means over the corruptions of the benchmark that have all severities.
struct CorruptionSummary {
  std::size_t corruptions = 0;                // number of these corruptions
  std::optional<double> mean_error, mean_ce;  // percent
  // The mCE of the paper is defined only as the mean over all 15 corruptions.
  std::optional<double> mce() const {
    return corruptions == kBenchmarkCorruptions ? mean_ce : std::nullopt;
  }
};
// `errors` has the order of corruptions(); corruptions outside the benchmark may be missing.
CorruptionSummary summarize(std::span<const SeverityErrors> errors);

// "gaussian_noise/3"; `severity` counts from 0.
std::string score_name(const Corruption& corruption, std::size_t severity);

// Returns the score with this name, or null.
const RobustnessScore* find_score(const RobustnessReport& report, const std::string& name);

// Returns the errors of each of corruptions().
std::vector<SeverityErrors> errors_of(const RobustnessReport& report);

// Summary over the benchmark. Small images: over all corruptions with all severities, without CE.
CorruptionSummary summary_of(const RobustnessReport& report);
CorruptionSummary summary_without_frost(const RobustnessReport& report);

// Name of frost with generated textures, and the reason why small images have no mCE.
inline constexpr const char* kStandInFrost = "frost (stand-in)";
inline constexpr const char* kNoMce =
    "no mCE: it is defined by AlexNet's errors on 224 x 224 images";
bool frost_is_stand_in(const RobustnessReport& report);

// Increase of an error over that of the clean images; nothing if one of the two is unknown.
std::optional<double> relative_error(const std::optional<double>& error,
                                     const RobustnessScore* clean);

// Returns the scores saved in `file`, or nothing if the file does not exist. Throws ConfigError if
// it is another file, or was made with other settings.
std::map<std::string, RobustnessScore> load_scores(const std::filesystem::path& file, Suite suite,
                                                   const RobustnessSettings& settings);

}  // namespace dtn
