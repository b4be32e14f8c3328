// Options and output of dtn-bench products.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// Matrix products of a training step on a CUDA device, each timed with every algorithm that the
// library offers for it.
struct ProductsBenchCommand {
  int steps = 20;     // timed replays of an algorithm in each of the two rounds; the median counts
  int launches = 20;  // minimum launches of the product per replay
  std::string only;   // products whose names contain this text
  // Factors that the launches cycle through, so that no launch finds its operands in a cache.
  std::int64_t working_set_mib = 256;
  std::string output;

  void add_to(CLI::App& app);
  // Runs a step of one micro-batch of the model in `config`, on random samples, and times all kinds
  // of products in this step. Each candidate is timed twice, the second time in reverse order. The
  // fastest candidate is the one whose slower time is the shortest. It counts as the best if this
  // time is at least 2 % below the faster time of the first candidate. Candidates that do not give
  // the same bits twice are left out. Prints a line for each measured product at once, as JSON or
  // as text. Returns the exit code. Throws ConfigError if no product name contains `only`.
  int run(const ExperimentConfig& config, Device device, bool json,
          const Registries& registries) const;
};

}  // namespace dtn::app
