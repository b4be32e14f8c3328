// summary.json of a run folder: the results of a run that finished or diverged.
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

// Writes the summary of a run that diverged, with the figures of the last evaluation in
// metrics.jsonl that has a finite loss.
void write_diverged_summary(const Run& run, const Validation& validation, const Retreat& retreat);

// Returns true if the folder holds the summary of a run that finished at `step`.
bool has_summary(const std::filesystem::path& folder, std::int64_t step);

// Removes the summary of a run that diverged, because the run goes on. Keeps any other summary.
void remove_diverged_summary(const std::filesystem::path& folder);

}  // namespace dtn
