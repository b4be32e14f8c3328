// A coarse grid of tokens at the size of a fine one, beside the channels of another map:
//    y[b, (i, j)] = [coarse[b, (floor(i Hc / H), floor(j Wc / W))], fine[b, (i, j)]]
// Tokens are in raster order, channels innermost. The gradient of a coarse token is the sum over
// the fine tokens that got it, row by row, in the accumulator type; it is rounded once.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "kernels/conv/upsample_tokens.h"

namespace dtn {

// The channels of `shape` are those of the coarse grid.
struct UpsampleJoinForward {
  UpsampleShape shape;
  std::int64_t fine_channels;  // F; 0: there is no other map
  const void* coarse;          // [B, Hc Wc, C]
  const void* fine;            // [B, H W, F], or null
  void* y;                     // [B, H W, C + F]
};
void run(CpuQueue&, const UpsampleJoinForward&);
void run(CudaQueue&, const UpsampleJoinForward&);

struct UpsampleJoinBackward {
  UpsampleShape shape;
  std::int64_t fine_channels;
  const void* dy;  // [B, H W, C + F]
  void* dcoarse;   // [B, Hc Wc, C], written (=); null: not needed
  void* dfine;     // [B, H W, F], written (=); null: not needed
};
void run(CpuQueue&, const UpsampleJoinBackward&);
void run(CudaQueue&, const UpsampleJoinBackward&);

}  // namespace dtn
