// Runs a sweep and reports on it. A sweep's folder holds
//
//   <variant>/seed-<n>/   a run folder of dtn-train, with train.log, and failure.json if it failed
//
//   table.md, table.csv, table.json, and the pictures values and curves as .svg and .png
//
//   sweep.lock            locked while a sweep is at work there
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/sweep.h"
#include "dtn/tasks/registries.h"

namespace dtn {

class SharedRuns;

struct SweepOptions {
  std::filesystem::path output;
  // Where results are kept beyond the runs, see kept_results.h: what is finished there is not run
  // again. Empty: nowhere.
  std::filesystem::path results;
  std::filesystem::path trainer;       // the program dtn-train
  std::vector<std::string> evaluator;  // the program dtn-eval, and its first words if it has some
  std::map<std::string, std::filesystem::path> suite_roots;  // folders, by suite
  // Runs of other sweeps that may be the same as one of this; null: there are none.
  SharedRuns* shared = nullptr;
  std::string device = "auto";    // for dtn-train
  int threads = 1;                // of each run
  int jobs = 1;                   // runs at a time
  std::vector<std::string> only;  // variants, or variant:seed; all when empty
  bool keep_going = true;         // with the other runs when one fails
  std::string command;            // what the tables say reproduces them
  const Registries* registries = &standard_registries();  // what configs may name
};

enum class SweepStatus {
  kFinished,
  kFailed,   // a run failed; the others are done, unless they were not to go on
  kStopped,  // by SIGTERM or SIGINT, after checkpoints
};

// Runs what is not finished, each run in a process of its own, and rewrites the tables whenever one
// ends. Throws ConfigError when the folder belongs to something else: to runs whose configs differ
// from the sweep's, to another sweep at work, or to no sweep at all; DataError when the data of a
// run cannot be opened.
SweepStatus run_sweep(const SweepConfig& sweep, const SweepOptions& options);

// What run_sweep would do and how long that might take.
struct SweepForecast {
  std::string text;      // a table of runs and what is left
  std::size_t left = 0;  // runs
  double seconds = 0;    // until the last of them is done
};

// Trains a few steps of variants of which no run is finished, to see, and leaves the folder alone.
// Where there is no data, made-up images take its place, and the text says so.
SweepForecast describe_sweep(const SweepConfig& sweep, const SweepOptions& options);

}  // namespace dtn
