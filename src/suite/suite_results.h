// Results of a suite: as a table of corruptions, as JSON, and back from it.
#pragma once

#include <filesystem>
#include <map>
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

// What `file` keeps, or nothing when there is no such file. ConfigError when it is something else,
// or was made with other settings.
std::map<std::string, SuiteScore> load_scores(const std::filesystem::path& file, Suite suite,
                                              const SuiteSettings& settings);

}  // namespace dtn
