// Token ids [B, T], int64, of samples of different lengths, padded at their ends. The kernels run
// on the device of the model, because the host does not know ids that are on a device.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

// y[b, t] = ids[b, t] if t < lengths[b], else 0. The pads of ids may hold anything.
struct PadIds {
  std::int64_t batch, tokens, given;  // tokens per sample in y and in ids
  const std::int64_t* ids;            // [B, given]
  const std::int64_t* lengths;        // [B], at most `tokens` and at most `given`
  std::int64_t* y;                    // [B, tokens]
};
void run(CpuQueue&, const PadIds&);
void run(CudaQueue&, const PadIds&);

// y[b] = lengths[b] + more
struct LengthenSamples {
  std::int64_t batch, more;
  const std::int64_t* lengths;  // [B]
  std::int64_t* y;              // [B]
};
void run(CpuQueue&, const LengthenSamples&);
void run(CudaQueue&, const LengthenSamples&);

}  // namespace dtn
