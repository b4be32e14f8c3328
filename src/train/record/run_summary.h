// summary.json of a run folder: the results of a run that finished or diverged.
#pragma once

#include <cstdint>
#include <filesystem>

#include "dtn/config/train_config.h"
#include "train/checkpoint.h"
#include "train/evaluator.h"
#include "train/record/attempts_file.h"
#include "train/snapshot.h"

namespace dtn {

struct RunResults {
  const std::filesystem::path& folder;  // of the run
  BestBy best;
  const RunProgress& progress;
  const Evaluations& last;  // without metrics if this attempt has made no evaluation
  const AttemptsFile& attempts;
};

// Writes the summary of a finished run, with the figures of its last evaluation.
void write_summary(const RunResults& run);

// Writes the summary of a run that diverged, with the figures of the last evaluation in
// metrics.jsonl that has a finite loss.
void write_diverged_summary(const RunResults& run, const Retreat& retreat);

// Returns true if the folder holds the summary of a run that finished at `step`.
bool has_summary(const std::filesystem::path& folder, std::int64_t step);

// Removes the summary of a run that diverged, because the run goes on. Keeps any other summary.
void remove_diverged_summary(const std::filesystem::path& folder);

}  // namespace dtn
