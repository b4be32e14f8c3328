// Figures of training runs, and HTML pages about them: the values that were logged over the epochs.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/report/analysis/analysis_json.h"
#include "apps/report/config_table.h"
#include "dtn/tasks/registries.h"
#include "plot/chart.h"
#include "plot/page.h"
#include "plot/panel.h"

namespace dtn {

// Values over epochs, by name such as "loss" or "top1".
using Curves = std::map<std::string, plot::Series>;

// Pictures of a run that its report shows.
inline constexpr std::size_t kMaxPictures = 6;

// Output of a dtn-train run, read from its folder for drawing. Lines cut off by a kill and missing
// files are ignored.
struct RunRecord {
  std::string name;                           // from its config, or else of the folder
  std::string config;                         // text of config.yaml
  ConfigValues values;                        // its keys and values
  std::string task;                           // from the config; empty: unknown
  double outputs = 0;                         // dino.out_dim of the config; 0: unknown
  Curves training;                            // logged steps
  std::map<std::string, Curves> evaluations;  // by split: "val", "val_ema"
  std::int64_t step = 0;                      // last logged step
  double epoch = 0;
  drawing::AnalysisJson lambdas;    // like lambda_history of an analysis; null: not logged
  drawing::AnalysisJson gradients;  // [{"step", "epoch", "gradient_norm": {part: norm}}]
  drawing::AnalysisJson summary;    // summary.json; null: the run has not finished
  drawing::AnalysisJson attempts;   // the list in attempts.json; null: none
  std::string samples;              // bytes of samples.png
  // Pictures that the task has drawn, at most kMaxPictures over the run, the last among them.
  std::vector<std::pair<std::int64_t, std::string>> pictures = {};  // step, bytes of the PNG file
  drawing::AnalysisJson neighbors;  // neighbors.json; null: no nearest neighbours
  std::string neighbors_png;        // bytes of neighbors.png
  // Problems that training has seen, in the order of their steps.
  std::vector<std::pair<std::int64_t, std::string>> warnings = {};  // step, text

  // Step at which the run diverged, from its summary; empty if it did not diverge.
  std::optional<std::int64_t> diverged_at() const;
};

// Throws DataError if the folder has no metrics of a run.
RunRecord read_run_record(const std::filesystem::path& folder);

// Returns the run folders of a folder: itself, or the seeds of a sweep variant.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

// Runs drawn as one line: a single run, or the seeds of a variant.
struct RunGroup {
  std::string label;
  std::vector<RunRecord> runs;
};

// Width of a figure of curves, in CSS pixels.
inline constexpr double kChartWidth = plot::kCellWidth, kMinChartWidth = 300, kMaxChartWidth = 2000;

// Draws the evaluation metrics, the training loss and the terms of the task, scheduled values,
// gradient norm and speed. Several groups keep their order, colour and marker in all figures. The
// lines of a single group are its training and its evaluations.
std::vector<plot::Figure> curve_figures(std::span<const RunGroup> groups,
                                        double width = kChartWidth);

// Draws the lambdas and the gradient norms of a run, and its samples.png, where it has them.
std::vector<plot::Figure> inner_figures(const RunRecord& run);

// Writes report.html into a run's folder: results, config, curves, and its other records.
void write_run_report(const std::filesystem::path& run,
                      const Registries& registries = standard_registries());

// Returns a page that compares runs: last and best metrics, differences of the configs, and all
// curves.
std::string comparison_page(const std::string& title, std::span<const RunGroup> groups,
                            const std::vector<plot::Figure>& figures,
                            const Registries& registries = standard_registries());

}  // namespace dtn
