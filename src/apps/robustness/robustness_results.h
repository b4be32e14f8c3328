// Results of a suite: as a table of corruptions, to JSON, and from JSON.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/robustness/corruption_error.h"
#include "apps/robustness/robustness.h"

namespace dtn {

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
