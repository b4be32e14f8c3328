// Time of a training step by kernel, summed from a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/trace.h"

namespace dtn {

struct KernelTotal {
  std::string name;
  std::int64_t calls = 0;
  double us = 0;
};

// Sums the launches by kernel; the kernel with the longest time comes first.
std::vector<KernelTotal> add_up(const std::vector<cuda::TimedLaunch>& launches);

// Returns a table with a line for each kernel and its share, a line for the sum, and the difference
// to `step_us`, the time of a step without a trace (possibly replayed as one graph).
std::string trace_table(const std::vector<KernelTotal>& kernels, double step_us);

}  // namespace dtn
