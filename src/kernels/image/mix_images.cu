// Mixing of pairs of images. See mix_images.h. At 224 x 224, a batch of 1024 is 617 MB. BlendPairs
// reads and writes it once. SwapBoxes moves a third of it on average.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/image/mix_images.h"

namespace dtn {
namespace {

// Element i is a value of both images of a pair.
template <class Index>
struct BlendPairsMap {
  static constexpr int kWidth = 4, kVectors = 2, kInputs = 2;
  std::int64_t last, values;  // last: the last image
  float share, partner_share;
  float* images;

  __device__ void addresses(std::int64_t i, float*& own, float*& partner) const {
    const cuda::RowColumn at = cuda::row_and_column<Index>(i, values);
    own = images + i;
    partner = images + (last - at.row) * values + at.column;
  }
  template <int n>
  __device__ void load(std::int64_t i, float (&v)[2][n]) const {
    float *own, *partner;
    addresses(i, own, partner);
    cuda::load_values(own, v[0]);
    cuda::load_values(partner, v[1]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    float *own, *partner;
    addresses(i, own, partner);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float a = v[0][k], b = v[1][k];
      v[0][k] = __fmaf_rn(share, a, __fmul_rn(partner_share, b));
      v[1][k] = __fmaf_rn(share, b, __fmul_rn(partner_share, a));
    }
    cuda::store_values(own, v[0]);
    cuda::store_values(partner, v[1]);
  }
};

// Element i is a pixel of one channel in the boxes of a pair. Boxes may begin anywhere, so vectors
// are not possible.
template <class Index>
struct SwapBoxesMap {
  static constexpr int kWidth = 1, kVectors = 4, kInputs = 2;
  SwapBoxes args;

  __device__ void addresses(std::int64_t i, float*& own, float*& partner) const {
    const cuda::RowColumn row = cuda::row_and_column<Index>(i, args.box_width);
    const cuda::RowColumn plane = cuda::row_and_column<Index>(row.row, args.box_height);
    const cuda::RowColumn image = cuda::row_and_column<Index>(plane.row, args.channels);
    const std::int64_t planes = image.row * args.channels + image.column;
    const std::int64_t mirror = (args.batch - 1 - image.row) * args.channels + image.column;
    const std::int64_t y = args.top + plane.column, x = args.left + row.column;
    own = args.images + (planes * args.height + y) * args.width + x;
    partner = args.images + (mirror * args.height + y) * args.width + x;
  }
  template <int n>
  __device__ void load(std::int64_t i, float (&v)[2][n]) const {
    float *own, *partner;
    addresses(i, own, partner);
    v[0][0] = *own;
    v[1][0] = *partner;
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    float *own, *partner;
    addresses(i, own, partner);
    *own = v[1][0];
    *partner = v[0][0];
  }
};

__global__ void pair_labels_kernel(PairLabels args) {
  const std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (b >= args.batch) return;
  args.partner_labels[b] = args.labels[args.batch - 1 - b];
  args.label_share[b] = args.share;
}

}  // namespace

void run(CudaQueue& queue, const BlendPairs& args) {
  const std::int64_t count = args.batch / 2 * args.values;
  const bool wide = args.values % 4 == 0 && cuda::all_aligned(args.images);
  cuda::for_index(count, [&](auto index) {
    const BlendPairsMap<decltype(index)> map{args.batch - 1, args.values, args.share,
                                             args.partner_share, args.images};
    cuda::launch_map(queue, "blend_pairs", map, count, wide);
  });
}

void run(CudaQueue& queue, const SwapBoxes& args) {
  const std::int64_t count = args.batch / 2 * args.channels * args.box_height * args.box_width;
  cuda::for_index(count, [&](auto index) {
    cuda::launch_map(queue, "swap_boxes", SwapBoxesMap<decltype(index)>{args}, count, false);
  });
}

void run(CudaQueue& queue, const PairLabels& args) {
  if (args.batch == 0) return;
  launch(queue, {"pair_labels", {args.batch}}, pair_labels_kernel,
         {blocks_for(args.batch, 128), 128}, args);
}

}  // namespace dtn
