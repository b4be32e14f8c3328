// `samples:` of a sweep file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/sweeps/sweep_config.h"
#include "config/sweeps/sweep_paper.h"

namespace dtn::config {

// Value of `samples:`. The config of the judge is not read yet.
struct SamplesFile {
  std::optional<Written<std::string>> judge;  // a path; unset: the sweep has no such section
  SweepSamples samples;
};

// Reads the section; `folder` holds the sweep file. Null: none.
SamplesFile read_samples(const Node& node, const std::filesystem::path& folder,
                         const ConfigSchemas& schemas);

// Reads the config of the judge, with those of the overrides that tell of data. Throws an error if
// a variant takes the folder of the judge.
SweepSamples load_samples(const SamplesFile& file, std::span<const std::string> overrides,
                          std::span<const SweepVariant> variants, const ConfigSchemas& schemas);

}  // namespace dtn::config
