// Which keys of the section `data` mean something for a data set.
#pragma once

#include <span>
#include <string>

#include "config/document.h"
#include "dtn/config/schemas.h"

namespace dtn::config {

// Of a data set that is none of them, every key.
bool is_key_of_dataset(const std::string& key, const std::string& dataset,
                       std::span<const DatasetSchema> datasets);

}  // namespace dtn::config
