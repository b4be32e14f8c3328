// Options and results of dtn-bench attention.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/bench/benchmark_attention.h"

namespace dtn::app {

struct AttentionBenchCommand {
  AttentionBenchmarkOptions options;
  std::string shape = "8,2001,512", variant = "clean";

  void add_to(CLI::App& app);
  // Throws ConfigError if the options do not fit together.
  nlohmann::ordered_json result(DType dtype, int steps, Device device) const;
};

}  // namespace dtn::app
