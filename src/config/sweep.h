// A sweep: one experiment in several variants, each trained from several seeds, and the figures of
// a paper to put beside the results. The format is described in docs/sweeps.md.
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

// What a run is judged by: a figure of its last evaluation, or the best of all evaluations.
struct SweepMetric {
  FigureSchema figure;
  bool best_of_all = false;

  std::string name() const { return best_of_all ? "best_" + figure.name : figure.name; }
  bool operator==(const SweepMetric& other) const { return name() == other.name(); }
};

// The robustness suites that finished runs may be evaluated on, see docs/robustness.md.
inline const std::array<std::string, 2> kSweepSuites = {"imagenet-c", "imagenet-r"};

struct SweepVariant {
  std::string name;             // also of its folder
  std::string label;            // in tables and pictures; default: the name
  std::optional<double> paper;  // the figure to compare the metric with
  std::vector<std::uint64_t> seeds;
  ExperimentConfig config;  // with the first of the seeds; its name is <sweep>-<variant>
  // The paper's figures by suite: mCE, or top-1 in percent.
  std::map<std::string, double> paper_suites = {};
  bool sets_num_classes = true;  // false: the config leaves model.num_classes out
};

struct SweepConfig {
  std::string name;   // default: that of the file
  std::string title;  // default: the name
  SweepMetric metric;
  bool ema = false;                     // judge the moving average of the weights instead
  FigureSchema milestone_figure;        // the first that the task has
  std::vector<double> milestones;       // values of it, each better than the one before
  std::optional<std::size_t> baseline;  // of the variants
  std::vector<std::string> suites;      // of kSweepSuites: to evaluate finished runs on
  std::vector<SweepVariant> variants;
};

// Reads a sweep file (following `base_sweep:`), and every variant's config with `overrides` on top.
// Strict like the configs: an error names file:line:column and the variant.
SweepConfig load_sweep(const std::string& path, std::span<const std::string> overrides,
                       const ConfigSchemas& schemas);

}  // namespace dtn
