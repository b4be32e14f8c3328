// A sweep: one experiment in several variants, each trained with several seeds, and the results of
// a paper for comparison. docs/sweeps.md describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// Metric of a run: a figure of its last evaluation, or the best value of all evaluations.
struct SweepMetric {
  FigureSchema figure;
  bool best_of_all = false;

  std::string name() const { return best_of_all ? "best_" + figure.name : figure.name; }
  bool operator==(const SweepMetric& other) const { return name() == other.name(); }
};

// Robustness suites for the evaluation of finished runs; see docs/robustness.md.
inline const std::array<std::string, 2> kSweepSuites = {"imagenet-c", "imagenet-r"};

struct SweepVariant {
  std::string name;             // also the name of its folder
  std::string label;            // in tables and pictures; default: the name
  std::optional<double> paper;  // the paper's value of the metric
  std::vector<std::uint64_t> seeds;
  ExperimentConfig config;  // with the first seed; its name is <sweep>-<variant>
  // The paper's results by suite: mCE, or top-1 in percent.
  std::map<std::string, double> paper_suites = {};
  bool sets_num_classes = true;  // false: the config leaves model.num_classes out
};

struct SweepConfig {
  std::string name;   // default: the file's name
  std::string title;  // default: the name
  SweepMetric metric;
  bool ema = false;                // evaluate the moving average of the weights
  FigureSchema milestone_figure;   // the task's first figure
  std::vector<double> milestones;  // values of milestone_figure, each better than the one before
  std::optional<std::size_t> baseline;  // index of a variant
  std::vector<std::string> suites;      // subset of kSweepSuites, for finished runs
  std::vector<SweepVariant> variants;
};

// Reads a sweep file (and its `base_sweep:`), and the config of every variant with `overrides` on
// top. It is as strict as the configs: an error names file:line:column and the variant.
SweepConfig load_sweep(const std::string& path, std::span<const std::string> overrides,
                       const ConfigSchemas& schemas);

// Several sweeps for one command and one page, such as all tables of a paper. The file:
//
//   title: "All tables"
//   sweeps:
//     - table1_models                              a sweep file, or the name of a shipped one
//     - {title: "Table 4", not_yet: "why"}         a table without a sweep, listed with the reason
//     - {title: "Figure 2", figure: figure2,       an analysis of finished runs of these sweeps
//        analyze: [table1_models/vit_s_ln, table1_models/vit_s_dtn]}
//     - {title: "Figure 4", figure: figure4, illustrations: true}
//   evaluate: [imagenet-c]                         suites for every sweep besides its own

// A figure that dtn-analyze makes from finished runs, or its illustrations.
struct SweepFigure {
  // A run of a sweep of the collection.
  struct Run {
    std::string sweep, variant, label;  // the label is the variant's
    std::uint64_t seed = 0;
  };
  std::string name;                          // names its folder, too
  std::vector<Run> runs;                     // empty: the illustrations, which need no run
  bool before = false;                       // also each run's state before training
  std::optional<std::int64_t> images, seed;  // images to draw, and the seed of the draw
  std::optional<std::int64_t> token;         // token whose row of P is shown
  std::vector<std::string> pictures;         // pictures for the page; empty: all
};
struct CollectedSweep {
  std::string title;
  std::optional<SweepConfig> sweep;
  std::optional<SweepFigure> figure;
  std::string not_yet;  // reason why there is neither a sweep nor a figure
};
struct SweepCollection {
  std::string name;                    // default: the file's name
  std::string title;                   // default: the name
  std::vector<CollectedSweep> tables;  // and figures
};

// True if the file has `sweeps:`. Throws ConfigError if the file cannot be read or parsed.
bool is_sweep_collection(const std::string& path);

// Reads the file and all sweeps that it names, as load_sweep() does. Errors name file:line:column.
SweepCollection load_sweep_collection(const std::string& path,
                                      std::span<const std::string> overrides,
                                      const ConfigSchemas& schemas);

}  // namespace dtn
