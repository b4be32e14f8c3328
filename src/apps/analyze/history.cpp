#include "apps/analyze/history.h"

#include <algorithm>
#include <utility>

#include "apps/common/json_files.h"

namespace dtn {

nlohmann::ordered_json read_history(const std::optional<std::filesystem::path>& file) {
  constexpr std::pair<const char*, const char*> kLists[] = {{"steps", "step"},
                                                            {"epochs", "epoch"},
                                                            {"lambda_mean", "lambda_mean"},
                                                            {"lambda_var", "lambda_var"}};
  nlohmann::ordered_json history;
  if (!file) return history;
  each_json_line(*file, [&](const nlohmann::ordered_json& line) {
    const auto has = [&](const auto& list) { return line.contains(list.second); };
    if (!std::ranges::all_of(kLists, has)) return;
    for (const auto& [list, key] : kLists) history[list].push_back(line[key]);
  });
  return history;
}

}  // namespace dtn
