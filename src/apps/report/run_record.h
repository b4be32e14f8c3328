// Output of a dtn-train run, read from its folder for drawing. Lines cut off by a kill and missing
// files are ignored.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/report/analysis_json.h"
#include "plot/panel.h"

namespace dtn {

// Values over epochs, by name such as "loss" or "top1".
using Curves = std::map<std::string, plot::Series>;

struct RunRecord {
  std::string name;                           // from its config, or else of the folder
  std::string config;                         // text of config.yaml
  Curves training;                            // logged steps
  std::map<std::string, Curves> evaluations;  // by split: "val", "val_ema"
  std::int64_t step = 0;                      // last logged step
  double epoch = 0;
  drawing::AnalysisJson lambdas;    // like lambda_history of an analysis; null: not logged
  drawing::AnalysisJson gradients;  // [{"step", "epoch", "gradient_norm": {part: norm}}]
  drawing::AnalysisJson summary;    // summary.json; null: the run has not finished
  std::string samples;              // bytes of samples.png

  // Step at which the run diverged, from its summary; empty if it did not diverge.
  std::optional<std::int64_t> diverged_at() const;
};

// Throws DataError if the folder has no metrics of a run.
RunRecord read_run_record(const std::filesystem::path& folder);

// Returns the run folders of a folder: itself, or the seeds of a sweep variant.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

}  // namespace dtn
