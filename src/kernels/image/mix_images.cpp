// Mixing pairs of images. See mix_images.h.
#include "kernels/image/mix_images.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kChunk = 16384;  // values per task

void blend(float* __restrict a, float* __restrict b, std::int64_t n, float share,
           float partner_share) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float own = a[i], partner = b[i];
    a[i] = __builtin_fmaf(share, own, partner_share * partner);
    b[i] = __builtin_fmaf(share, partner, partner_share * own);
  }
}

}  // namespace

void run(CpuQueue&, const BlendPairs& args) {
  const std::int64_t chunks = (args.values + kChunk - 1) / kChunk;
  parallel_for(args.batch / 2 * chunks, [=, &args](std::int64_t task) {
    const std::int64_t b = task / chunks, first = task % chunks * kChunk;
    blend(args.images + b * args.values + first,
          args.images + (args.batch - 1 - b) * args.values + first,
          std::min(kChunk, args.values - first), args.share, args.partner_share);
  });
}

void run(CpuQueue&, const SwapBoxes& args) {
  parallel_for(args.batch / 2 * args.channels, [&args](std::int64_t task) {
    const std::int64_t b = task / args.channels, c = task % args.channels;
    const std::int64_t partner = args.batch - 1 - b;
    for (std::int64_t y = args.top; y < args.top + args.box_height; ++y) {
      const std::int64_t at = (c * args.height + y) * args.width + args.left;
      const std::int64_t image = args.channels * args.height * args.width;
      float* own = args.images + b * image + at;
      std::swap_ranges(own, own + args.box_width, args.images + partner * image + at);
    }
  });
}

void run(CpuQueue&, const PairLabels& args) {
  for (std::int64_t b = 0; b < args.batch; ++b) {
    args.partner_labels[b] = args.labels[args.batch - 1 - b];
    args.label_share[b] = args.share;
  }
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(BlendPairs)
DTN_DISPATCH(SwapBoxes)
DTN_DISPATCH(PairLabels)
