// Single kernels of a training step against what the machine could do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"

namespace dtn {

struct KernelBenchmarkOptions {
  int steps = 20;     // timed replays; the median counts
  int launches = 20;  // of the kernel in each of them, at least
  std::string only;   // kernels whose names contain it
  // Bytes that the launches go through in turn before they begin again, so that none finds its
  // inputs in a cache; the copy whose rate counts is of four times as many.
  std::int64_t working_set = std::int64_t{256} << 20;
  std::int64_t cube = 0;  // see measure_gemms()
};

struct KernelTime {
  std::string kernel, shape;
  double us = 0;
  double bytes = 0;  // each input read once and each output written once
  double flops = 0;  // twice the multiply-adds; 0 where there are few of each element
  // The longer of what the bytes take at the copy rate and the flops at the rate of products.
  double floor_us = 0;
  double ratio = 0;        // us / floor_us
  std::string error = {};  // instead of all this: what went wrong
};

struct KernelBenchmark {
  double copy_gbytes_per_second = 0, gemm_gflops = 0;
  int kernels = 0, failed = 0;
};

// Times those of kernel_cases() one by one, on a CUDA device as captured graphs, and hands each to
// `report` at once. Throws ConfigError when no kernel is called like options.only.
KernelBenchmark benchmark_kernels(const ExperimentConfig& config,
                                  const KernelBenchmarkOptions& options, Device device,
                                  const std::function<void(const KernelTime&)>& report);

}  // namespace dtn
