// Attention inside groups on CUDA devices. bfloat16 in aligned rows runs on tensor cores
// (grouped_attention_tiles_*.cu). Everything else runs in float32 on CUDA cores
// (attention_plain_*.cu).
#include "kernels/attention/attention_device.cuh"
#include "kernels/grouped_attention/grouped_attention.h"

namespace dtn {

void run(CudaQueue& queue, const GroupedAttentionForward& args) {
  const GroupedAttentionProblem& p = args.problem;
  if (p.is_empty()) return;
  if (p.dtype == DType::kBFloat16 && attention::grouped_tiles_forward(queue, args)) return;
  attention::grouped_plain_forward(queue, args);
}

void run(CudaQueue& queue, const GroupedAttentionBackward& args) {
  const GroupedAttentionProblem& p = args.problem;
  if (p.is_empty()) return;
  const auto statistics =
      queue.scratch<attention::RowStatistics>(p.batch * p.groups * p.heads * p.queries);
  if (p.dtype == DType::kBFloat16 &&
      attention::grouped_tiles_backward(queue, args, statistics.get())) {
    return;
  }
  attention::grouped_plain_backward(queue, args, statistics.get());
}

}  // namespace dtn
