// Where the time of a step goes: what a trace of it saw, added up by kernel.
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

// The longest first.
std::vector<KernelTotal> add_up(const std::vector<cuda::TimedLaunch>& launches);

// A line for each kernel with its share of all, one for all of them, and how much longer the step
// of `step_us` took, which ran as one graph or however it does without a trace.
std::string trace_table(const std::vector<KernelTotal>& kernels, double step_us);

}  // namespace dtn
