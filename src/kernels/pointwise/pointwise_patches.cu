// Images to patches. Each thread writes 16 bytes of the result, in order. The threads read whole
// lines of patches. For patches of 8 pixels or more, these are whole 32-byte sectors, so each byte
// is read once and written once. With patches of 16 pixels in bfloat16, an element costs 6 bytes of
// traffic, and 8 elements cost 100 instructions: a third of what the device can issue in that time.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

// Source of an element of the patches; next() moves to the next element.
template <class Index>
class PatchWalk {
 public:
  __device__ PatchWalk(const Patchify& args, std::int64_t i)
      : args_(args), grid_w_(args.width / args.patch), grid_h_(args.height / args.patch) {
    std::int64_t rest = i;
    px_ = take(rest, args.patch);
    py_ = take(rest, args.patch);
    c_ = take(rest, args.channels);
    gx_ = take(rest, grid_w_);
    gy_ = take(rest, grid_h_);
    b_ = rest;
  }
  __device__ std::int64_t offset() const {
    std::int64_t line = (b_ * args_.channels + c_) * args_.height + gy_ * args_.patch + py_;
    return line * args_.width + gx_ * args_.patch + px_;
  }
  __device__ void next() {
    if (++px_ < args_.patch) return;
    px_ = 0;
    if (++py_ < args_.patch) return;
    py_ = 0;
    if (++c_ < args_.channels) return;
    c_ = 0;
    if (++gx_ < grid_w_) return;
    gx_ = 0;
    if (++gy_ < grid_h_) return;
    gy_ = 0;
    ++b_;
  }

 private:
  static __device__ std::int64_t take(std::int64_t& rest, std::int64_t extent) {
    auto [row, column] = cuda::row_and_column<Index>(rest, extent);
    rest = row;
    return column;
  }

  const Patchify& args_;
  std::int64_t grid_w_, grid_h_;
  std::int64_t px_, py_, c_, gx_, gy_, b_;
};

// kWholeLines: a vector lies in one line of a patch and is aligned in the image, too.
template <class T, class Index, bool kWholeLines>
__global__ void patchify_kernel(Patchify args, std::int64_t count, bool aligned) {
  constexpr int n = cuda::kPerVector<T>;
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * n;
  if (i >= count) return;
  auto* images = static_cast<const float*>(args.images);
  T* patches = static_cast<T*>(args.patches) + i;
  PatchWalk<Index> walk(args, i);
  float v[n];
  if constexpr (kWholeLines) {
    cuda::load_values(images + walk.offset(), v);
    cuda::store_values(patches, v);
  } else {
    const int filled = count - i < n ? static_cast<int>(count - i) : n;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      v[k] = k < filled ? images[walk.offset()] : 0.0f;
      walk.next();
    }
    if (aligned && filled == n) {
      cuda::store_values(patches, v);
    } else {
#pragma unroll
      for (int k = 0; k < n; ++k) {
        if (k < filled) patches[k] = cuda::from_float<T>(v[k]);
      }
    }
  }
}

template <class T, class Index>
void patchify(CudaQueue& queue, const Patchify& args) {
  constexpr int n = cuda::kPerVector<T>;
  const std::int64_t patches = args.batch * (args.height / args.patch) * (args.width / args.patch);
  const std::int64_t count = patches * args.channels * args.patch * args.patch;
  if (count == 0) return;
  const bool whole_lines =
      args.patch % n == 0 && args.width % n == 0 && cuda::all_aligned(args.images, args.patches);
  launch(queue, {"patchify", {args.batch, args.channels, args.height, args.width, args.patch}},
         whole_lines ? patchify_kernel<T, Index, true> : patchify_kernel<T, Index, false>,
         {blocks_for(count, kThreads * n), kThreads}, args, count, cuda::all_aligned(args.patches));
}

}  // namespace

void run(CudaQueue& queue, const Patchify& args) {
  for_cuda_dtype("patchify", args.dtype, [&](auto zero) {
    cuda::for_index(args.batch * args.channels * args.height * args.width,
                    [&](auto index) { patchify<decltype(zero), decltype(index)>(queue, args); });
  });
}

}  // namespace dtn
