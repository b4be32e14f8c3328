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

#include "config/feature_evaluation.h"
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

// Number of the corruption errors that papers list: those of ImageNet-C's benchmark, in its order.
inline constexpr std::size_t kPaperCorruptions = 15;

// Results of a paper on a robustness suite.
struct PaperSuite {
  std::optional<double> figure;           // mCE, or top-1 in percent
  std::vector<double> corruption_errors;  // CE of each corruption; empty: not given
};

// An evaluation of the features of frozen models.
struct SweepEvaluation {
  std::string name;     // in file names, and as a column of table.csv
  std::string label{};  // in tables; default: the name
  FeatureEvaluation how;
};

// Evaluations of the checkpoints of every finished run; see docs/frozen-features.md.
struct SweepFeatures {
  std::vector<SweepEvaluation> evaluations;  // empty: none
  std::vector<int> epochs;  // checkpoints after these epochs; empty: only the last checkpoint
};

// Samples of every finished run of diffusion models, judged by a classifier; see docs/sampling.md.
struct SweepSamples {
  std::optional<ExperimentConfig> judge;  // of the classifier, trained by the sweep; unset: none
  bool judge_sets_num_classes = true;     // false: its config leaves model.num_classes out
  std::int64_t count = 500;               // samples of a run, through the classes in turn
  std::int64_t steps = 50;
  std::string sampler = "ddim";        // or "ddpm"
  std::vector<double> guidance = {1};  // scales; each is judged
  std::int64_t references = 5000;      // training images to compare with
  std::uint64_t seed = 0;              // of the noise
};
// Subfolder of a sweep for the run of the judge.
inline constexpr const char* kJudgeFolder = "judge";

// A further value of the last evaluation, in a column of the table.
struct SweepColumn {
  std::string name;   // of the value in metrics.jsonl
  std::string label;  // heading of the column; default: the name
};

struct SweepVariant {
  std::string name;             // also the name of its folder
  std::string label;            // in tables and pictures; default: the name
  std::optional<double> paper;  // the paper's value of the metric
  std::vector<std::uint64_t> seeds;
  ExperimentConfig config;  // with the first seed; its name is <sweep>-<variant>
  std::map<std::string, PaperSuite> paper_suites = {};  // by suite
  bool sets_num_classes = true;  // false: the config leaves model.num_classes out
  std::map<std::string, double> paper_figures = {};  // the paper's other figures, by name
  // The paper's size of the model. It counts multiply-adds per sample with a dense P.
  std::optional<std::int64_t> paper_parameters = {}, paper_multiply_adds = {};
  // The paper's top-1 by name of the evaluation, one for each of SweepFeatures::epochs, or one.
  std::map<std::string, std::vector<double>> paper_features = {};
};

struct SweepConfig {
  std::string name;   // default: the file's name
  std::string title;  // default: the name
  SweepMetric metric;
  bool ema = false;                // evaluate the moving average of the weights
  FigureSchema milestone_figure;   // the first figure of the task
  std::vector<double> milestones;  // values of milestone_figure, each better than the one before
  std::optional<std::size_t> baseline;  // index of a variant
  std::vector<std::string> suites;      // subset of kSweepSuites, for finished runs
  std::vector<SweepVariant> variants;
  // Figures besides the metric that the paper gives for a variant, in the order of the task.
  std::vector<FigureSchema> paper_figures = {};
  std::vector<SweepColumn> columns = {};
  std::vector<std::string> notes = {};  // shown below the table
  SweepFeatures features = {};
  SweepSamples samples = {};
};

// Reads a sweep file (and its `base_sweep:`), and the config of every variant with `overrides` on
// top. It is as strict as the configs: an error names file:line:column and the variant.
SweepConfig load_sweep(const std::string& path, std::span<const std::string> overrides,
                       const ConfigSchemas& schemas);

// The cost of one layer of several normalizers in a vision transformer, counted without training.
// The value of `costs:`:
//
//   base: vit_s_star_ln
//   norms:
//     - {norm: dtn, label: DTN, parameters: "2C + 3H", operations: "O(BCT^2)"}
//   notes: "a text, or a list of texts"
struct NormCosts {
  struct Row {
    std::string label;                               // default: the normalizer's type
    ModelConfig model;                               // the base with this normalizer
    std::string paper_parameters, paper_operations;  // the paper's formulas; may be empty
  };
  std::vector<Row> rows;
  std::vector<std::string> notes;
};

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
  std::optional<SweepConfig> sweep = {};
  std::optional<SweepFigure> figure = {};
  std::optional<NormCosts> costs = {};
  std::string not_yet = {};  // reason why none of these exists
};

// Several sweeps for one command and one page, such as all tables of a paper. The file:
//
//   title: "All tables"
//   sweeps:
//     - table1_models                              a sweep file, or the name of a shipped one
//     - {title: "Table 4", not_yet: "why"}         a table without a sweep, listed with the reason
//     - {title: "Figure 2", figure: figure2,       an analysis of finished runs of these sweeps
//        analyze: [table1_models/vit_s_ln, table1_models/vit_s_dtn]}
//     - {title: "Figure 4", figure: figure4, illustrations: true}
//     - {title: "Table 7b", costs: {...}}          a table of NormCosts, without runs
//   evaluate: [imagenet-c]                         suites for every sweep besides its own
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
