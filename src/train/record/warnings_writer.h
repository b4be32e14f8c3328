// Problems that the task sees in the figures of a run: warnings.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtn/tasks/task.h"
#include "io/json_lines.h"
#include "train/step_pipeline.h"

namespace dtn {

// Writes a line for each kind of problem: step, epoch, name and text. Without problems, there is no
// file.
class WarningsWriter {
 public:
  // Drops lines after the step at which a run resumes; empty: all lines. Kinds that remain are not
  // reported again.
  WarningsWriter(const std::filesystem::path& run, std::optional<std::int64_t> resumed_at);

  // Takes the terms of a finished step.
  void add(const StepReport& report);
  // Shows the task the means of the terms since the last call. Returns the text of a problem of a
  // kind that the run has not reported yet.
  std::optional<std::string> check(const Task& task, std::int64_t step, const RunLength& run);
  // Reports a problem that was found at a step; unset: none. Returns its text if the run has not
  // reported one of this kind yet.
  std::optional<std::string> report(const std::optional<TaskWarning>& found, std::int64_t step,
                                    const RunLength& run);
  void sync();

 private:
  std::filesystem::path path_;
  std::optional<JsonLinesWriter> lines_;  // unset: no file
  std::set<std::string> reported_;        // names
  std::vector<Named<double>> sums_;       // of the terms, weighted by their shares of the samples
  std::vector<double> shares_;            // sums of the shares
};

}  // namespace dtn
