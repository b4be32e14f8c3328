// lambda_history: what a run logged of its lambdas (train.log_norms).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace dtn {

// Null where there is no such file, or no line in it. Lines torn by a kill are left out.
nlohmann::ordered_json read_history(const std::optional<std::filesystem::path>& file);

}  // namespace dtn
