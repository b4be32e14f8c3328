// Addition of a coarse grid of tokens to a fine one. Each fine token gets the nearest coarse token:
//    y[b, (i, j), c] = fine[b, (i, j), c] + coarse[b, (floor(i Hc / H), floor(j Wc / W)), c]
// Tokens are in raster order, channels innermost. The gradient of `fine` is that of y. The gradient
// of `coarse` is that of UpsampleJoinBackward without fine channels.
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

}  // namespace dtn
