// Padded token ids, one thread per id; see padded_ids.h. A step has only a few hundred kilobytes of
// them. The kernels exist so that the host need not wait for the ids.
#include "kernels/cuda/launch.cuh"
#include "kernels/pointwise/padded_ids.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) pad_ids_kernel(PadIds args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= args.batch * args.tokens) return;
  const std::int64_t b = i / args.tokens, t = i % args.tokens;
  args.y[i] = t < args.lengths[b] && t < args.given ? args.ids[b * args.given + t] : 0;
}

__global__ void __launch_bounds__(kThreads) lengthen_samples_kernel(LengthenSamples args) {
  const std::int64_t b = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (b < args.batch) args.y[b] = args.lengths[b] + args.more;
}

}  // namespace

void run(CudaQueue& queue, const PadIds& args) {
  const std::int64_t count = args.batch * args.tokens;
  if (count == 0) return;
  launch(queue, {"pad_ids", {args.batch, args.tokens}}, pad_ids_kernel,
         {blocks_for(count, kThreads), kThreads}, args);
}

void run(CudaQueue& queue, const LengthenSamples& args) {
  if (args.batch == 0) return;
  launch(queue, {"lengthen_samples", {args.batch}}, lengthen_samples_kernel,
         {blocks_for(args.batch, kThreads), kThreads}, args);
}

}  // namespace dtn
