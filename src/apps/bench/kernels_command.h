// Options and output of dtn-bench kernels.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"

namespace dtn::app {

// Single kernels of a training step, compared with the peak rates of the machine.
struct KernelsBenchCommand {
  int steps = 20;     // timed replays; the median counts
  int launches = 20;  // minimum launches per replay
  std::string only;   // kernels whose names contain this text
  // Inputs and outputs that the launches cycle through, so that no launch finds its inputs in a
  // cache. The copy that measures the copy rate moves four times as many bytes.
  std::int64_t working_set_mib = 256;

  void add_to(CLI::App& app);
  // Times the kernels of kernel_cases() one by one, on a CUDA device as captured graphs. Prints a
  // line for each at once, as JSON or as text, and in the end the reference rates of the machine;
  // for `cube` see measure_gemms(). Returns the exit code. Throws ConfigError if no kernel name
  // contains `only`.
  int run(const ExperimentConfig& config, Device device, bool json, std::int64_t cube) const;
};

}  // namespace dtn::app
