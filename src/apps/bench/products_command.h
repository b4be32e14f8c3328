// Options and output of dtn-bench products.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/bench/benchmark_products.h"

namespace dtn::app {

struct ProductsBenchCommand {
  ProductBenchmarkOptions options;
  std::int64_t working_set_mib = options.working_set >> 20;
  std::string output;

  void add_to(CLI::App& app);
  // Prints a line for each measured product at once, as JSON or as text. Returns the exit code.
  int run(const ExperimentConfig& config, Device device, bool json, const Registries& registries);
};

}  // namespace dtn::app
