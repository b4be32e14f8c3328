// The record of a fetched model, dtn-get.json in its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/get/download.h"
#include "config/model_cache.h"

namespace dtn::app {

struct FetchRecord {
  std::string model;                          // its name; empty if there is no record
  std::map<std::string, std::int64_t> sizes;  // bytes of each file
};

// Returns an empty record for a folder without one, or with a damaged one.
FetchRecord read_record(const std::filesystem::path& folder);

// Writes the address, ETag, commit, size and SHA-256 of each file.
void write_record(const std::filesystem::path& folder, const HubModel& model,
                  const std::map<std::string, FetchedFile>& files);

}  // namespace dtn::app
