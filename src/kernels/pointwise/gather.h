// Copies of tokens into the layout that a matrix product needs, and their gradients.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Gathers the 3 x 3 neighbours of every token of a grid, row by row. A linear layer then acts as a
// convolution:
//    y[b, (i, j), (u, v), c] = x[b, (i + u - 1, j + v - 1), c], or 0 outside the grid
struct NeighboursForward {
  DType dtype;
  std::int64_t batch, grid_h, grid_w, channels;
  const void* x;  // [B, T, C], T = grid_h grid_w
  void* y;        // [B, T, 9 C]
};
void run(CpuQueue&, const NeighboursForward&);
void run(CudaQueue&, const NeighboursForward&);

// The sum is in the order of (u, v):
//    dx[b, (i, j), c] = sum over (u, v) of dy[b, (i - u + 1, j - v + 1), (u, v), c]
struct NeighboursBackward {
  DType dtype;
  std::int64_t batch, grid_h, grid_w, channels;
  const void* dy;  // [B, T, 9 C]
  void* dx;        // [B, T, C], =
};
void run(CpuQueue&, const NeighboursBackward&);
void run(CudaQueue&, const NeighboursBackward&);

}  // namespace dtn
