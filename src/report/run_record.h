// What a run of dtn-train has left in its folder, read for drawing. Lines torn by a kill, and files
// that are not there, count as nothing.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plot/panel.h"
#include "report/reading.h"

namespace dtn {

// Values over epochs by name, such as "loss" or "top1".
using Curves = std::map<std::string, plot::Series>;

struct RunRecord {
  std::string name;                           // of its config, or of the folder
  std::string config;                         // config.yaml
  Curves training;                            // logged steps
  std::map<std::string, Curves> evaluations;  // by split: "val", "val_ema"
  std::int64_t step = 0;                      // the last that was logged
  double epoch = 0;
  drawing::AnalysisJson lambdas;    // as lambda_history of an analysis; null: not logged
  drawing::AnalysisJson gradients;  // [{"step", "epoch", "gradient_norm": {part: norm}}]
  drawing::AnalysisJson summary;    // summary.json; null: the run is not over
  std::string samples;              // samples.png

  // The step at which the run diverged, by its summary; nothing: it did not.
  std::optional<std::int64_t> diverged_at() const;
};

// Throws DataError for a folder without the metrics of a run.
RunRecord read_run_record(const std::filesystem::path& folder);

// The runs below a folder: itself, or, for a variant of a sweep, those of its seeds.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

}  // namespace dtn
