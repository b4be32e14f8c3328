#include "apps/analyze/history.h"

#include <fstream>
#include <string>

namespace dtn {

nlohmann::ordered_json read_history(const std::optional<std::filesystem::path>& file) {
  if (!file) return nullptr;
  std::ifstream in(*file);
  using nlohmann::ordered_json;
  ordered_json history = {{"steps", ordered_json::array()},
                          {"epochs", ordered_json::array()},
                          {"lambda_mean", ordered_json::array()},
                          {"lambda_var", ordered_json::array()}};
  for (std::string line; std::getline(in, line);) {
    const ordered_json entry = ordered_json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("step") || !entry.contains("epoch") ||
        !entry.contains("lambda_mean") || !entry.contains("lambda_var")) {
      continue;
    }
    history["steps"].push_back(entry["step"]);
    history["epochs"].push_back(entry["epoch"]);
    history["lambda_mean"].push_back(entry["lambda_mean"]);
    history["lambda_var"].push_back(entry["lambda_var"]);
  }
  return history["steps"].empty() ? ordered_json() : history;
}

}  // namespace dtn
