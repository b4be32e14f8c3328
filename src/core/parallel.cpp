#include "dtn/core/parallel.h"

#include <unistd.h>

#include <algorithm>

#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {

void set_num_threads(int threads) {
  DTN_CHECK(threads >= 1, "the number of threads must be at least 1, got ", threads);
  omp_set_num_threads(threads);
}

void share_cores(int process, int processes) {
  if (processes <= 1) return;
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int part = std::max(1, cores / processes), here = std::max(1, omp_get_num_procs());
  if (here < part && process == 0) {
    log_warn(cat("each process is tied to ", here, " of ", cores, " cores, ", part,
                 " would be its part; start them with mpirun --bind-to none"));
  }
  set_num_threads(std::min(part, here));
}

}  // namespace dtn
