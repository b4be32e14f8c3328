// Windows laid out as columns, one thread per written element; see unfold.h.
#include "kernels/primitive/unfold.h"
#include "kernels/primitive/window.cuh"

namespace dtn {
namespace {

using cuda::kWindowThreads;

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads) unfold_kernel(Unfold args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto at = cuda::PlaneElement::of<Index>(element, w.out_h, w.out_w);
  const cuda::RowColumn tap = cuda::row_and_column<Index>(at.plane, w.kernel_h * w.kernel_w);
  const std::int64_t i = at.i * w.stride_h + tap.column / w.kernel_w - w.pad_h;
  const std::int64_t j = at.j * w.stride_w + tap.column % w.kernel_w - w.pad_w;
  const bool inside = 0 <= i && i < w.height && 0 <= j && j < w.width;
  static_cast<T*>(args.columns)[element] =
      inside ? static_cast<const T*>(args.x)[(tap.row * w.height + i) * w.width + j]
             : cuda::from_float<T>(0.0f);
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads) fold_kernel(Fold args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto at = cuda::PlaneElement::of<Index>(element, w.height, w.width);
  const std::int64_t pixels = w.out_h * w.out_w;
  const T* from =
      static_cast<const T*>(args.dcolumns) + at.plane * w.kernel_h * w.kernel_w * pixels;
  float sum = 0;
  for (std::int64_t u = 0; u < w.kernel_h; ++u) {
    const std::int64_t i = cuda::output_of(at.i, u, w.pad_h, w.stride_h, w.out_h);
    if (i < 0) continue;
    for (std::int64_t v = 0; v < w.kernel_w; ++v) {
      const std::int64_t j = cuda::output_of(at.j, v, w.pad_w, w.stride_w, w.out_w);
      if (j >= 0) sum += cuda::to_float(from[(u * w.kernel_w + v) * pixels + i * w.out_w + j]);
    }
  }
  static_cast<T*>(args.dx)[element] = cuda::from_float<T>(sum);
}

}  // namespace

void run(CudaQueue& queue, const Unfold& args) {
  for_cuda_dtype("unfold", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.planes * w.kernel_h * w.kernel_w * w.out_h * w.out_w;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(queue, {"unfold", {args.planes, w.out_h, w.out_w}},
                            unfold_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

void run(CudaQueue& queue, const Fold& args) {
  for_cuda_dtype("fold", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.planes * w.height * w.width;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(queue, {"fold", {args.planes, w.height, w.width}},
                            fold_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

}  // namespace dtn
