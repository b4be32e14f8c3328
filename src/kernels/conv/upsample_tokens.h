// Addition of a coarse grid of tokens to a fine one. Each fine token gets the nearest coarse token:
//    y[b, (i, j), c] = fine[b, (i, j), c] + coarse[b, (floor(i Hc / H), floor(j Wc / W)), c]
// Tokens are in raster order, channels innermost. The gradient of a coarse token is the sum over
// the fine tokens that got it, row by row, in the accumulator type; it is rounded once.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct UpsampleShape {
  DType dtype;
  std::int64_t batch, channels;
  std::int64_t height, width;                // H, W of the fine grid
  std::int64_t coarse_height, coarse_width;  // Hc <= H, Wc <= W

  // First index on a fine axis of n whose coarse index is at least i of m: ceil(i n / m).
  static constexpr std::int64_t first(std::int64_t i, std::int64_t n, std::int64_t m) {
    return (i * n + m - 1) / m;
  }
};

struct UpsampleAddForward {
  UpsampleShape shape;
  const void* fine;    // [B, H W, C]
  const void* coarse;  // [B, Hc Wc, C]
  void* y;             // [B, H W, C]
};
void run(CpuQueue&, const UpsampleAddForward&);
void run(CudaQueue&, const UpsampleAddForward&);

// The gradient of `fine` is dy itself.
struct UpsampleAddBackward {
  UpsampleShape shape;
  const void* dy;  // [B, H W, C]
  void* dcoarse;   // [B, Hc Wc, C], written (=)
};
void run(CpuQueue&, const UpsampleAddBackward&);
void run(CudaQueue&, const UpsampleAddBackward&);

}  // namespace dtn
