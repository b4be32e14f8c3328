// Combines the moments of several ranks; see combine_moments.h. Serial, because there are few
// values.
#include "kernels/norm/combine_moments.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

template <class A>
void pack(const PackMoments& args) {
  auto* mean = static_cast<const A*>(args.mean);
  auto* wide_mean = static_cast<const double*>(args.mean);
  auto* rest = static_cast<const A*>(args.mean_rest);
  auto* variance = static_cast<const A*>(args.variance);
  for (std::int64_t c = 0; c < args.channels; ++c) {
    args.packed[c] = rest ? static_cast<double>(mean[c]) + rest[c] : wide_mean[c];
    args.packed[args.channels + c] = variance[c];
  }
  args.packed[2 * args.channels] = static_cast<double>(args.rows);
}

template <class A>
void combine(const CombineMoments& args) {
  const std::int64_t channels = args.channels, width = 2 * channels + 1;
  for (std::int64_t c = 0; c < channels; ++c) {
    double rows = 0, mean = 0, squares = 0;
    for (std::int64_t r = 0; r < args.ranks; ++r) {
      const double* of_rank = args.packed + r * width;
      const double more = of_rank[2 * channels], apart = of_rank[c] - mean;
      if (more == 0) continue;
      const double share = more / (rows + more);
      mean += apart * share;
      squares += more * of_rank[channels + c] + apart * apart * (rows * share);
      rows += more;
    }
    static_cast<A*>(args.variance)[c] = static_cast<A>(squares / rows);
    if (args.mean_rest) {
      const A nearest = static_cast<A>(mean);
      static_cast<A*>(args.mean)[c] = nearest;
      static_cast<A*>(args.mean_rest)[c] = static_cast<A>(mean - nearest);
    } else {
      static_cast<double*>(args.mean)[c] = mean;
    }
  }
}

}  // namespace

void run(CpuQueue&, const PackMoments& args) {
  for_accumulator_dtype("PackMoments", args.dtype, [&](auto t) { pack<decltype(t)>(args); });
}

void run(CpuQueue&, const CombineMoments& args) {
  for_accumulator_dtype("CombineMoments", args.dtype, [&](auto t) { combine<decltype(t)>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(PackMoments)
DTN_DISPATCH(CombineMoments)
