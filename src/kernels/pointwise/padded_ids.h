// Numbers of tokens [B, T] int64 of samples of different lengths, padded at their ends, where the
// model is: on a device the host does not know them.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

// y[b, t] = ids[b, t] where t < lengths[b], else 0, whatever lies there.
struct PadIds {
  std::int64_t batch, tokens, given;  // tokens of a sample in y and in ids
  const std::int64_t* ids;            // [B, given]
  const std::int64_t* lengths;        // [B], none more than `tokens` or `given`
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
