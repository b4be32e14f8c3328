#include "config/dataset_keys.h"

#include <algorithm>

namespace dtn::config {
namespace {

bool lists(const DatasetSchema& dataset, const std::string& key) {
  return std::ranges::count(dataset.keys, key) > 0;
}

}  // namespace

bool is_key_of_dataset(const std::string& key, const std::string& dataset,
                       std::span<const DatasetSchema> datasets) {
  const auto row = std::ranges::find(datasets, dataset, &DatasetSchema::name);
  if (row == datasets.end() || lists(*row, key)) return true;
  return std::ranges::none_of(datasets, [&](const DatasetSchema& d) { return lists(d, key); });
}

}  // namespace dtn::config
