// Runs a sweep and reports its results. A sweep's folder holds
//
//   <variant>/seed-<n>/   a run folder of dtn-train, with train.log, and failure.json if it failed;
//                         with the results of evaluations
//
//   judge/                the run folder of the judge of samples
//
//   table.md, table.csv, table.json, and the pictures values and curves as .svg and .png
//
//   sweep.lock            locked while a sweep runs there
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/sweeps/sweep_config.h"
#include "dtn/tasks/registries.h"

namespace dtn {

class SharedRuns;

// Folders of robustness suites, by suite.
using SuiteRoots = std::map<std::string, std::filesystem::path>;

struct SweepOptions {
  std::filesystem::path output;
  // Archive of results; empty: none. Runs finished there do not run again (see known_runs.h).
  std::filesystem::path results;
  std::filesystem::path trainer;       // the program dtn-train
  std::vector<std::string> evaluator;  // command that starts dtn-eval
  std::vector<std::string> analyzer;   // command that starts dtn-analyze
  std::vector<std::string> sampler;    // command that starts dtn-sample
  SuiteRoots suite_roots;
  // Runs of other sweeps that may equal a run of this sweep; null: none.
  SharedRuns* shared = nullptr;
  std::string device = "auto";    // for dtn-train
  int threads = 1;                // per run
  int jobs = 1;                   // concurrent runs
  std::vector<std::string> only;  // variants, or variant:seed; empty: all
  bool keep_going = true;         // continue with the other runs after a failure
  std::string command;            // command in the tables that reproduces them
  const Registries* registries = &standard_registries();  // names available to configs
};

enum class SweepStatus {
  kFinished,
  kFailed,   // a run failed; the others are done if keep_going is set
  kStopped,  // by SIGTERM or SIGINT, after checkpoints
};

// Runs all unfinished runs, each in a separate process, and rewrites the tables whenever a run
// ends. Throws ConfigError if the folder belongs to something else: to runs with configs that
// differ from the sweep's, to another active sweep, or to no sweep. Throws DataError if the data of
// a run cannot be opened.
SweepStatus run_sweep(const SweepConfig& sweep, const SweepOptions& options);

// Plan of run_sweep(), with estimated times.
struct SweepForecast {
  std::string text;             // table of the runs and the remaining work
  std::size_t left = 0;         // runs
  double seconds = 0;           // until the last run is done
  std::size_t evaluations = 0;  // of features, not part of `seconds`
  std::size_t samples = 0;      // evaluations of samples, not part of `seconds`
};

// Estimates times from a few training steps of each variant without a finished run. Does not change
// the folder. If the data is missing, synthetic images replace it, and the text says so.
SweepForecast describe_sweep(const SweepConfig& sweep, const SweepOptions& options);

// Runs the sweeps of a collection one after the other, each in a subfolder of the output, makes
// each figure as soon as its runs are finished, in <output>/figures/<figure>, and shows all tables
// and figures on one page, <output>/<name>.html. `options.only` selects sweeps and figures. A run
// that two sweeps share is trained once. Throws the same errors as run_sweep().
SweepStatus run_collection(const SweepCollection& collection, const SweepOptions& options);

// Prints the plan of run_collection() table by table, with the estimated time of each and the sum.
void describe_collection(const SweepCollection& collection, const SweepOptions& options);

}  // namespace dtn
