// summary.json of a run folder: what a run came to, whether it finished or diverged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "train/checkpoint.h"
#include "train/run.h"
#include "train/validation.h"

namespace dtn {

// Writes the summary of a finished run, with the figures of its last evaluation.
void write_summary(const Run& run, const Validation& validation);

// Writes the summary of a run that diverged, with the figures of its last evaluation of a finite
// loss, as metrics.jsonl has them.
void write_diverged_summary(const Run& run, const Validation& validation, const Retreat& retreat);

// Returns true if the folder holds the summary of a run that finished at `step`.
bool has_summary(const std::filesystem::path& folder, std::int64_t step);

// Removes the summary of a run that diverged: it goes on. Another one stays.
void remove_diverged_summary(const std::filesystem::path& folder);

}  // namespace dtn
