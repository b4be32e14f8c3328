// A sweep: one experiment in several variants, each trained from several seeds, and the figures of
// a paper to put beside the results. The format is described in docs/sweeps.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// What a run is judged by: its last evaluation, or the best top-1 of all of them.
enum class SweepMetric { kTop1, kTop5, kLoss, kBestTop1 };

struct SweepVariant {
  std::string name;             // also of its folder
  std::string label;            // in tables and pictures; default: the name
  std::optional<double> paper;  // the figure to compare the metric with
  std::vector<std::uint64_t> seeds;
  ExperimentConfig config;  // with the first of the seeds; its name is <sweep>-<variant>
};

struct SweepConfig {
  std::string name;   // default: that of the file
  std::string title;  // default: the name
  SweepMetric metric = SweepMetric::kTop1;
  bool ema = false;                     // judge the moving average of the weights instead
  std::vector<double> milestones;       // top-1, increasing
  std::optional<std::size_t> baseline;  // of the variants
  std::vector<SweepVariant> variants;
};

// Reads a sweep file (following `base_sweep:`), and every variant's config with `overrides` on top.
// Strict like the configs: an error names file:line:column and the variant.
SweepConfig load_sweep(const std::string& path, std::span<const std::string> overrides,
                       const ConfigSchemas& schemas);

}  // namespace dtn
