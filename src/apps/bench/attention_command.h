// Options and results of dtn-bench attention.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/bench/benchmark.h"

namespace dtn::app {

// Attention over a sequence, without its projections: q, k and v come from memory. CPU only. Runs
// alternate with runs of dense attention, so that the ratio is fair on a noisy machine.
struct AttentionBenchCommand {
  std::string kind = "dense", shape = "8,2001,512", variant = "clean";
  std::int64_t heads = 8;
  std::int64_t length = 0;  // valid tokens of every sample; 0: all
  double dropout = 0;       // of the attention weights; dense only

  void add_to(CLI::App& app);
  // Returns median times, also those of dense attention over all tokens without dropout, and rates,
  // if all tokens are valid. Throws ConfigError if the options do not fit together.
  BenchmarkResult result(DType dtype, int steps, Device device) const;
};

}  // namespace dtn::app
