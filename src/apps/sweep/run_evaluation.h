// Evaluates finished runs of a sweep by dtn-eval, each in a separate process.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_plan.h"

namespace dtn {

struct RunEvaluation {
  std::string title;  // for messages, after "evaluating": "on imagenet-c"
  std::filesystem::path checkpoint, log;
  std::vector<std::string> options;  // of dtn-eval, without those of the checkpoint and the machine
  // Returns the result in words after dtn-eval has succeeded; nothing if it left no result.
  std::function<std::optional<std::string>()> result;
};

// A program that works on a run.
struct RunProgram {
  std::string title;  // for messages: "evaluating on imagenet-c"
  std::vector<std::string> command;
  std::filesystem::path log;  // output of the program
  // Returns the result in words after the program has succeeded; nothing if it left no result.
  std::function<std::optional<std::string>()> result;
};

// True if the run has weights. Archived results of a run have none.
bool has_weights(const SweepRun& run);

// Runs a program, and logs its result or its failure.
SweepStatus run_logged(const SweepRun& run, const RunProgram& program);

// Adds the location of the data to a command: it may have moved since the checkpoint was written.
void add_data_options(const DataConfig& data, std::vector<std::string>& command);

// Runs dtn-eval with all threads of the sweep, and logs its result or its failure.
SweepStatus evaluate_run(const SweepConfig& sweep, const SweepOptions& options, const SweepRun& run,
                         const RunEvaluation& evaluation);

}  // namespace dtn
