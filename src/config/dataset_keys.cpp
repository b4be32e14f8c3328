#include "config/dataset_keys.h"

#include <algorithm>
#include <vector>

#include "config/codec.h"

namespace dtn::config {
namespace {

bool lists(const DatasetSchema& dataset, const std::string& key) {
  return std::ranges::count(dataset.keys, key) > 0;
}

}  // namespace

void check_dataset(const Node& root, std::span<const DatasetSchema> datasets) {
  const Node* chosen = root.at("data.dataset");
  if (chosen == nullptr || chosen->is_null()) return;
  std::vector<std::string> names;
  for (const DatasetSchema& dataset : datasets) names.push_back(dataset.name);
  static const std::string path = "data.dataset", doc = "the kind of data set";
  read_choice({*chosen, path, doc}, names);
}

bool is_key_of_dataset(const std::string& key, const std::string& dataset,
                       std::span<const DatasetSchema> datasets) {
  const auto row = std::ranges::find(datasets, dataset, &DatasetSchema::name);
  if (row == datasets.end() || lists(*row, key)) return true;
  return std::ranges::none_of(datasets, [&](const DatasetSchema& d) { return lists(d, key); });
}

}  // namespace dtn::config
