// Computations on channel moments; see channel_moments.h. Serial, because there are few values.
#include "kernels/norm/channel_moments.h"

#include <cmath>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

template <class A>
void forward(const ChannelMomentsForward& args) {
  auto* mean = static_cast<const A*>(args.mean);
  auto* rest = static_cast<const A*>(args.mean_rest);
  auto* variance = static_cast<const A*>(args.variance);
  auto* moments = static_cast<A*>(args.moments);
  for (std::int64_t i = 0; i < args.count; ++i) {
    moments[i] = mean[i] + rest[i];
    moments[args.count + i] = std::sqrt(variance[i] + static_cast<A>(args.eps));
  }
}

template <class A>
void backward(const ChannelMomentsBackward& args) {
  auto* deviation = static_cast<const A*>(args.std);
  auto* dmean = static_cast<const A*>(args.dmean);
  auto* dstd = static_cast<const A*>(args.dstd);
  for (std::int64_t s = 0; s < args.sets; ++s) {
    A* sums = static_cast<A*>(args.sums) + s * 2 * args.channels;
    for (std::int64_t c = 0; c < args.channels; ++c) {
      const std::int64_t i = s * args.channels + c;
      sums[c] = dmean ? -dmean[i] * deviation[i] : A(0);
      sums[args.channels + c] = dstd ? -dstd[i] * deviation[i] : A(0);
    }
  }
}

template <class A>
void share(const ShareSums& args) {
  const std::int64_t channels = args.channels, width = 2 * channels;
  auto* weight = static_cast<const A*>(args.weight);
  auto* sums = static_cast<const A*>(args.sums);
  auto* shared = static_cast<A*>(args.shared);
  for (std::int64_t i = 0; i < width; ++i) shared[i] = 0;
  for (std::int64_t s = 0; s < args.sets; ++s) {
    for (std::int64_t i = 0; i < width; ++i) {
      shared[i] += weight[s * args.weight_stride + i % channels] * sums[s * width + i];
    }
  }
  for (std::int64_t s = 1; s < args.sets; ++s) {
    std::memcpy(shared + s * width, shared, static_cast<std::size_t>(width) * sizeof(A));
  }
}

}  // namespace

void run(CpuQueue&, const ChannelMomentsForward& args) {
  for_accumulator_dtype("ChannelMomentsForward", args.dtype,
                        [&](auto t) { forward<decltype(t)>(args); });
}
void run(CpuQueue&, const ChannelMomentsBackward& args) {
  for_accumulator_dtype("ChannelMomentsBackward", args.dtype,
                        [&](auto t) { backward<decltype(t)>(args); });
}
void run(CpuQueue&, const ShareSums& args) {
  for_accumulator_dtype("ShareSums", args.dtype, [&](auto t) { share<decltype(t)>(args); });
}
void run(CpuQueue&, const PackMoments& args) {
  for_accumulator_dtype("PackMoments", args.dtype, [&](auto t) {
    for (std::int64_t c = 0; c < args.channels; ++c) pack_channel<decltype(t)>(args, c);
  });
}
void run(CpuQueue&, const CombineMoments& args) {
  for_accumulator_dtype("CombineMoments", args.dtype, [&](auto t) {
    for (std::int64_t c = 0; c < args.channels; ++c) combine_channel<decltype(t)>(args, c);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ChannelMomentsForward)
DTN_DISPATCH(ChannelMomentsBackward)
DTN_DISPATCH(ShareSums)
DTN_DISPATCH(PackMoments)
DTN_DISPATCH(CombineMoments)
