// lambda_history: the lambdas that a run has logged (train.log_norms).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace dtn {

// Returns null if there is no file, or no line in it. Skips lines that a killed process left
// incomplete.
nlohmann::ordered_json read_history(const std::optional<std::filesystem::path>& file);

}  // namespace dtn
