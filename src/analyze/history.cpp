#include "analyze/history.h"

#include <fstream>
#include <string>

namespace dtn {

nlohmann::ordered_json read_history(const std::optional<std::filesystem::path>& file) {
  using Json = nlohmann::ordered_json;
  if (!file) return nullptr;
  std::ifstream in(*file);
  Json history = {{"steps", Json::array()},
                  {"epochs", Json::array()},
                  {"lambda_mean", Json::array()},
                  {"lambda_var", Json::array()}};
  for (std::string line; std::getline(in, line);) {
    const Json entry = Json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("step") || !entry.contains("epoch") ||
        !entry.contains("lambda_mean") || !entry.contains("lambda_var")) {
      continue;
    }
    history["steps"].push_back(entry["step"]);
    history["epochs"].push_back(entry["epoch"]);
    history["lambda_mean"].push_back(entry["lambda_mean"]);
    history["lambda_var"].push_back(entry["lambda_var"]);
  }
  return history["steps"].empty() ? Json() : history;
}

}  // namespace dtn
