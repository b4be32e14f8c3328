// Assignment of the keys of the section `data` to data sets.
#pragma once

#include <span>
#include <string>

#include "config/document.h"
#include "dtn/config/schemas.h"

namespace dtn::config {

// True if `dataset` uses the key: it lists the key, or no data set does. Always true for a data set
// that is not in `datasets`.
bool is_key_of_dataset(const std::string& key, const std::string& dataset,
                       std::span<const DatasetSchema> datasets);

}  // namespace dtn::config
