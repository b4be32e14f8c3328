// Features of noise levels: cosines, then sines, of geometric frequencies.
//     w_k = 10000^(-k / n),   k = 0 .. n - 1
//     y[b, k] = cos(t_b w_k)
//     y[b, n + k] = sin(t_b w_k)
// Phases are computed in float64, because t w has a rounding error of t epsilons.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct TimestepFeatures {
  DType dtype;                      // of y: float32, or float64 on the CPU
  std::int64_t batch, frequencies;  // B, n
  const std::int64_t* timesteps;    // [B]
  void* y;                          // [B, 2 n]
};
void run(CpuQueue&, const TimestepFeatures&);
void run(CudaQueue&, const TimestepFeatures&);

}  // namespace dtn
