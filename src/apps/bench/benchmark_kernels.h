// Single kernels of a training step, compared with the peak rates of the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"

namespace dtn {

struct KernelBenchmarkOptions {
  int steps = 20;     // timed replays; the median counts
  int launches = 20;  // minimum launches per replay
  std::string only;   // kernels whose names contain this text
  // Bytes that the launches cycle through, so that no launch finds its inputs in a cache. The copy
  // that measures the copy rate moves four times as many bytes.
  std::int64_t working_set = std::int64_t{256} << 20;
  std::int64_t cube = 0;  // see measure_gemms()
};

struct KernelTime {
  std::string kernel, shape;
  double us = 0;
  double bytes = 0;  // each input read once and each output written once
  double flops = 0;  // twice the multiply-adds; 0 if they are few per element
  // Lower bound: the time of the bytes at the copy rate or of the flops at gemm rate, the longer.
  double floor_us = 0;
  double ratio = 0;        // us / floor_us
  std::string error = {};  // error message; the other numbers are then void
};

struct KernelBenchmark {
  double copy_gbytes_per_second = 0, gemm_gflops = 0;
  int kernels = 0, failed = 0;
};

// Times the kernels of kernel_cases() one by one, on a CUDA device as captured graphs. Passes each
// result to `report` at once. Throws ConfigError if no kernel name contains options.only.
KernelBenchmark benchmark_kernels(const ExperimentConfig& config,
                                  const KernelBenchmarkOptions& options, Device device,
                                  const std::function<void(const KernelTime&)>& report);

}  // namespace dtn
