#include "tasks/class_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {

void put_into_words(std::vector<std::string>& names) {
  const std::vector<std::string>& ids = imagenet_class_names();
  for (std::string& name : names) {
    const auto found = std::ranges::lower_bound(ids, name);
    if (found != ids.end() && *found == name) {
      name = imagenet_class_words()[static_cast<std::size_t>(found - ids.begin())];
    }
  }
}

std::string as_json(const std::vector<std::string>& names) {
  // Folder names may be any bytes; parts that are not UTF-8 are replaced.
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> stored_class_names(const StringMap& metadata, std::int64_t num_classes) {
  const auto text = metadata.find(kClassNamesKey);
  if (text == metadata.end()) return {};
  const auto json = nlohmann::json::parse(text->second, nullptr, false);
  const bool list = json.is_array() && std::ranges::all_of(json, &nlohmann::json::is_string);
  if (!list)
    throw DataError("the class names in the metadata of the weights are not a list of strings");
  auto names = json.get<std::vector<std::string>>();
  if (static_cast<std::int64_t>(names.size()) > num_classes) return {};
  return names;
}

void check_same_classes(const std::vector<std::string>& first,
                        const std::vector<std::string>& other, const std::string& named) {
  if (first.empty() || other.empty() || first == other) return;
  std::size_t at = 0;
  while (at < first.size() && at < other.size() && first[at] == other[at]) ++at;
  const auto at_or_none = [&](const std::vector<std::string>& names) {
    return at < names.size() ? names[at] : std::string("missing");
  };
  throw ConfigError(cat(named, ": its class ", at, " is ", at_or_none(other),
                        ", that of the first is ", at_or_none(first),
                        "; such models do not go together"));
}

std::vector<std::string> class_words(const StringMap& metadata, std::int64_t num_classes) {
  const auto imagenet = static_cast<std::int64_t>(imagenet_class_words().size());
  if (!metadata.contains(kClassNamesKey)) {
    return num_classes == imagenet ? imagenet_class_words() : std::vector<std::string>();
  }
  std::vector<std::string> names = stored_class_names(metadata, num_classes);
  put_into_words(names);
  return names;
}

}  // namespace dtn
