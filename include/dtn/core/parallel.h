// Loops over independent items on the OpenMP threads, one level deep.
// Results never depend on the number of threads, because an item does not depend on the thread that
// runs it. A caller that reduces across items does so over fixed tiles in a fixed order. All
// threads compute items with denormals treated as 0.
#pragma once

#include <omp.h>

#include <cstdint>
#include <exception>

#include "dtn/core/denormals.h"

namespace dtn {

// Number of threads of the next parallel loop.
inline int max_threads() { return omp_get_max_threads(); }
// Sets the number of threads of all later parallel loops of this thread, at least 1.
void set_num_threads(int threads);

namespace detail {
// Keeps one compiled body of the loop for the serial and the parallel path. If both inlined the
// body, the compiler might fuse multiplications and additions differently in each. The bits of the
// results would then depend on the number of threads.
#if defined(__clang__)
#define DTN_ONE_BODY [[gnu::noinline]]
#else
#define DTN_ONE_BODY [[gnu::noinline, gnu::noclone]]
#endif
template <class F>
DTN_ONE_BODY void run_item(F& f, std::int64_t i) {
  f(i);
}
#undef DTN_ONE_BODY
}  // namespace detail

// Calls f(i) once for every i in [0, n), in dynamic order, so large items may come first. The first
// exception is rethrown after the loop. Runs serially inside another parallel loop.
template <class F>
void parallel_for(std::int64_t n, F&& f) {
  if (n <= 0) return;
  if (n == 1 || omp_in_parallel() || omp_get_max_threads() == 1) {
    FlushDenormals flush;
    for (std::int64_t i = 0; i < n; ++i) detail::run_item(f, i);
    return;
  }
  std::exception_ptr error;
  FlushDenormals::Lifted lifted;
#pragma omp parallel
  {
    FlushDenormals flush;
#pragma omp for schedule(dynamic, 1) nowait
    for (std::int64_t i = 0; i < n; ++i) {
      try {
        detail::run_item(f, i);
      } catch (...) {
#pragma omp critical(dtn_parallel_error)
        if (!error) error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

// Calls f(begin, end) for consecutive ranges of `grain` items that cover [0, n). The ranges depend
// only on n and grain.
template <class F>
void parallel_ranges(std::int64_t n, std::int64_t grain, F&& f) {
  std::int64_t chunks = (n + grain - 1) / grain;
  parallel_for(chunks, [&](std::int64_t i) {
    std::int64_t begin = i * grain;
    f(begin, begin + grain < n ? begin + grain : n);
  });
}

}  // namespace dtn
