#include "data/sample/instruction_set.h"

#include <algorithm>
#include <atomic>

namespace dtn {
namespace {

int best_instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return 2;
  return __builtin_cpu_supports("avx2") ? 1 : 0;
#else
  return 0;
#endif
}

std::atomic<int> instruction_set_limit{2};

}  // namespace

int instruction_set() {
  static const int best = best_instruction_set();
  return std::min(best, instruction_set_limit.load(std::memory_order_relaxed));
}

void limit_instruction_set(int level) { instruction_set_limit = level; }

}  // namespace dtn
