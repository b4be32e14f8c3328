// Padded token ids; see padded_ids.h.
#include "kernels/pointwise/padded_ids.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const PadIds& args) {
  parallel_for(args.batch, [&](std::int64_t b) {
    std::int64_t* y = args.y + b * args.tokens;
    const std::int64_t count = args.lengths[b];
    std::copy_n(args.ids + b * args.given, count, y);
    std::fill(y + count, y + args.tokens, 0);
  });
}

void run(CpuQueue&, const LengthenSamples& args) {
  for (std::int64_t b = 0; b < args.batch; ++b) args.y[b] = args.lengths[b] + args.more;
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(PadIds)
DTN_DISPATCH(LengthenSamples)
