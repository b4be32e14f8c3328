// Dynamic Token Normalization on a CUDA device; see dtn_norm.h for the formulas. Two paths give the
// same results except for rounding: dtn_norm_tensor*.cu for the shapes that take most of the
// training time, and dtn_norm_plain*.cu for all others. Both use dtn_norm_cuda.cuh.
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "dtn/core/check.h"
#include "kernels/dtn/dtn_norm.h"
#include "kernels/dtn/dtn_norm_cuda.h"
#include "kernels/dtn/dtn_norm_prologue.h"

namespace dtn {
namespace {

std::atomic<bool> plain_forced = false;
std::atomic<int> warps_set = 0;  // 0: use the environment

void check_arguments(const DtnNormArguments& args) {
  DTN_CHECK(args.pool == 1, "pooled statistics need a full position matrix on a CUDA device");
  DTN_CHECK(args.parameter_stride == 0 && !args.scales,
            "dtn: gains of each image are not supported on a CUDA device");
}

}  // namespace

void force_plain_dtn(bool force) { plain_forced = force; }

int parse_dtn_warps(const char* text) {
  const std::string_view wish = text ? text : "";
  if (wish.empty() || wish == "8") return 8;
  if (wish == "12") return 12;
  throw ConfigError(cat("DTN_CUDA_DTN_WARPS is \"", wish, "\"; set it to 8 or 12"));
}
int dtn_backward_warps() {
  static const int of_environment = parse_dtn_warps(std::getenv("DTN_CUDA_DTN_WARPS"));
  const int set = warps_set;
  return set ? set : of_environment;
}
void set_dtn_backward_warps(int warps) { warps_set = warps; }

void run(CudaQueue& queue, const DtnNormForward& args) {
  check_arguments(args);
  if (args.is_empty()) return;
  if (!plain_forced && tensor_cores_take(args)) return run_tensor(queue, args);
  make_sum(queue, args);
  DtnNormForward with_x = args;
  with_x.sum = {};
  run_plain(queue, with_x);
}

void run(CudaQueue& queue, const DtnNormBackward& args) {
  check_arguments(args);
  if (args.is_empty()) return;
  if (!plain_forced && tensor_cores_take(args)) return run_tensor(queue, args);
  run_plain(queue, args);
  give_to_branch(queue, args);
}

}  // namespace dtn
