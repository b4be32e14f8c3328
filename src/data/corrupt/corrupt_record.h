// Settings that a folder of corrupted images was made with, stored in it as corruptions.txt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/corrupt/corruption_io.h"

namespace dtn {

struct CorruptRecord {
  std::uint64_t seed = 0;
  CorruptFormat format = CorruptFormat::kJpeg;
  std::string frost;  // FrostTextures::identity(); empty without frost
};

// Returns the record of a folder, if it has one. Throws DataError if the file is not a record.
std::optional<CorruptRecord> read_corrupt_record(const std::filesystem::path& folder);

// Merges `record` into the record of the folder. Throws ConfigError if they contradict each other,
// because the folder would mix images of two kinds.
void extend_corrupt_record(const std::filesystem::path& folder, CorruptRecord record);

}  // namespace dtn
