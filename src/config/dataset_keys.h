// data.dataset, and which keys of the section `data` mean something for it.
#pragma once

#include <span>
#include <string>

#include "config/document.h"
#include "dtn/config/schemas.h"

namespace dtn::config {

// Fails when data.dataset names none of them.
void check_dataset(const Node& root, std::span<const DatasetSchema> datasets);

// Of a data set that is none of them, every key.
bool is_key_of_dataset(const std::string& key, const std::string& dataset,
                       std::span<const DatasetSchema> datasets);

}  // namespace dtn::config
