#include "train/class_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

// In place of a WordNet id of ImageNet its word; other names as they are.
void put_into_words(std::vector<std::string>& names) {
  const std::vector<std::string>& ids = imagenet_class_names();
  for (std::string& name : names) {
    const auto found = std::ranges::lower_bound(ids, name);
    if (found != ids.end() && *found == name) {
      name = imagenet_class_words()[static_cast<std::size_t>(found - ids.begin())];
    }
  }
}

}  // namespace

std::string as_json(const std::vector<std::string>& names) {
  // Folders may be called anything; what is no UTF-8 in it is replaced.
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> class_names_of(const StringMap& metadata, int num_classes) {
  const auto text = metadata.find(kClassNamesKey);
  if (text == metadata.end()) {
    const auto imagenet = static_cast<int>(imagenet_class_words().size());
    return num_classes == imagenet ? imagenet_class_words() : std::vector<std::string>();
  }
  const auto json = nlohmann::json::parse(text->second, nullptr, false);
  const bool list = json.is_array() && std::ranges::all_of(json, &nlohmann::json::is_string);
  if (!list) throw DataError("the class names in the metadata of the weights are no list of texts");
  auto names = json.get<std::vector<std::string>>();
  if (static_cast<int>(names.size()) > num_classes) return {};
  put_into_words(names);
  return names;
}

}  // namespace dtn
