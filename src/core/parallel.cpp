#include "dtn/core/parallel.h"

#include "dtn/core/check.h"

namespace dtn {

void set_num_threads(int threads) {
  DTN_CHECK(threads >= 1, "the number of threads must be at least 1, got ", threads);
  omp_set_num_threads(threads);
}

}  // namespace dtn
