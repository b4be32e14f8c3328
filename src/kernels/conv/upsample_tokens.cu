// Upsampling of tokens, with one thread per element of the result; see upsample_tokens.h.
// Neighbouring threads have neighbouring channels.
#include "kernels/conv/upsample_tokens.h"
#include "kernels/conv/window.cuh"

namespace dtn {
namespace {

using cuda::kWindowThreads;

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    upsample_add_forward_kernel(UpsampleAddForward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const UpsampleShape& s = args.shape;
  const auto token = cuda::row_and_column<Index>(element, s.channels);
  const auto line = cuda::row_and_column<Index>(token.row, s.width);
  const auto row = cuda::row_and_column<Index>(line.row, s.height);
  const std::int64_t i = row.column * s.coarse_height / s.height;
  const std::int64_t j = line.column * s.coarse_width / s.width;
  const std::int64_t at =
      ((row.row * s.coarse_height + i) * s.coarse_width + j) * s.channels + token.column;
  const float sum = cuda::to_float(static_cast<const T*>(args.fine)[element]) +
                    cuda::to_float(static_cast<const T*>(args.coarse)[at]);
  static_cast<T*>(args.y)[element] = cuda::from_float<T>(sum);
}

}  // namespace

void run(CudaQueue& queue, const UpsampleAddForward& args) {
  const UpsampleShape& s = args.shape;
  for_cuda_dtype("upsample_add_forward", s.dtype, [&](auto zero) {
    const std::int64_t count = s.batch * s.height * s.width * s.channels;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(
          queue, {"upsample_add_forward", {s.batch, s.height, s.width, s.channels}},
          upsample_add_forward_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

}  // namespace dtn
