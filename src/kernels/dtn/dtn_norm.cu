// Dynamic Token Normalization on a CUDA device; see dtn_norm.h for the formulas. Two paths give the
// same numbers to rounding: dtn_norm_tensor*.cu for the shapes that training spends its time on,
// and dtn_norm_plain*.cu for everything else. What they share is in dtn_norm_cuda.cuh.
#include <atomic>

#include "dtn/core/check.h"
#include "kernels/dtn/dtn_norm.h"
#include "kernels/dtn/dtn_norm_cuda.h"

namespace dtn {
namespace {

std::atomic<bool> plain_forced = false;

template <class Arguments>
void run_either(CudaQueue& queue, const Arguments& args) {
  DTN_CHECK(args.pool == 1, "pooled statistics need a full position matrix on a CUDA device");
  if (args.batch == 0 || args.channels == 0 || args.grid_h * args.grid_w == 0) return;
  if (!plain_forced && tensor_cores_take(args)) {
    run_tensor(queue, args);
  } else {
    run_plain(queue, args);
  }
}

}  // namespace

void force_plain_dtn(bool force) { plain_forced = force; }

void run(CudaQueue& queue, const DtnNormForward& args) { run_either(queue, args); }
void run(CudaQueue& queue, const DtnNormBackward& args) { run_either(queue, args); }

}  // namespace dtn
