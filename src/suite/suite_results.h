// Results of a suite: as a table of corruptions, as JSON, and back from it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/corruptions.h"
#include "suite/suite.h"

namespace dtn {

// "gaussian_noise/3"; `severity` counts from 0.
std::string score_name(const Corruption& corruption, std::size_t severity);

// The score of that name, or null.
const SuiteScore* find_score(const SuiteReport& report, const std::string& name);

// Of each of corruptions().
std::vector<SeverityErrors> errors_of(const SuiteReport& report);

// Over the benchmark; of small images over all corruptions that have all severities, without CE.
CorruptionSummary summary_of(const SuiteReport& report);
CorruptionSummary summary_without_frost(const SuiteReport& report);

// What frost is called whose textures are made by code, and why small images have no mCE.
inline constexpr const char* kStandInFrost = "frost (stand-in)";
inline constexpr const char* kNoMce =
    "no mCE: it is of 224 x 224 images and weighed by AlexNet's errors on these";
bool frost_is_stand_in(const SuiteReport& report);

// By how much an error is above that of the clean images; nothing where one of them is not known.
std::optional<double> relative_error(const std::optional<double>& error, const SuiteScore* clean);

// What `file` keeps, or nothing when there is no such file. ConfigError when it is something else,
// or was made with other settings.
std::map<std::string, SuiteScore> load_scores(const std::filesystem::path& file, Suite suite,
                                              const SuiteSettings& settings);

}  // namespace dtn
