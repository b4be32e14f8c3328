// What a folder of corrupted images was made with, kept in it as corruptions.txt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/corrupt/chain.h"

namespace dtn {

struct CorruptRecord {
  std::uint64_t seed = 0;
  CorruptFormat format = CorruptFormat::kJpeg;
  std::string frost;  // FrostTextures::identity(), or empty while there is no frost
};

// Nothing when the folder has none; DataError when it is something else.
std::optional<CorruptRecord> read_corrupt_record(const std::filesystem::path& folder);

// Adds what `record` says to what the folder says. ConfigError when they contradict each other:
// images of two kinds would be mixed.
void extend_corrupt_record(const std::filesystem::path& folder, CorruptRecord record);

}  // namespace dtn
