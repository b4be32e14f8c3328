// Strided copies, one thread per element; see copy.h.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/primitive/copy.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

template <class U, class Index>
__global__ void __launch_bounds__(kThreads) copy_kernel(StridedCopy args, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  std::int64_t from = 0, to = 0;
  auto rest = static_cast<Index>(i);
  for (int d = args.extents.rank - 1; d >= 0; --d) {
    const auto size = static_cast<Index>(args.extents.size[d]);
    const Index next = rest / size;
    const auto here = static_cast<std::int64_t>(rest - next * size);
    rest = next;
    from += here * args.x_strides.step[d];
    to += here * args.y_strides.step[d];
  }
  static_cast<U*>(args.y)[to] = static_cast<const U*>(args.x)[from];
}

template <class U>
void copy(CudaQueue& queue, const StridedCopy& args) {
  std::int64_t count = 1;
  for (int d = 0; d < args.extents.rank; ++d) count *= args.extents.size[d];
  if (count == 0) return;
  cuda::for_index(count, [&](auto index) {
    launch(queue, {"strided_copy", {count}}, copy_kernel<U, decltype(index)>,
           {blocks_for(count, kThreads), kThreads}, args, count);
  });
}

}  // namespace

void run(CudaQueue& queue, const StridedCopy& args) {
  switch (size_of(args.dtype)) {
    case 1: return copy<std::uint8_t>(queue, args);
    case 2: return copy<std::uint16_t>(queue, args);
    case 4: return copy<std::uint32_t>(queue, args);
    default: return copy<std::uint64_t>(queue, args);
  }
}

}  // namespace dtn
