// Elementwise gains and shifts that depend on the sample, the row or the element, not only on the
// channel. Activations have `dtype`. Gains and shifts of samples and rows, and their gradients,
// have the accumulator type (float32; float64 for float64). Gradients are overwritten (=). The
// order of sums depends only on the shape.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

//    y[r, c] = x[r, c] (1 + gain[r, c]) + shift[r, c]
// A row of `modulation` holds the shifts of a row of x, and then its gains.
struct ModulateForward {
  DType dtype;
  std::int64_t rows, channels;
  const void* x;           // [rows, C]
  const void* modulation;  // [rows, 2 C]
  void* y;                 // [rows, C]; may be x
};
void run(CpuQueue&, const ModulateForward&);
void run(CudaQueue&, const ModulateForward&);

//    dx = dy (1 + gain) + dx_add
//    dshift = dy
//    dgain = dy x
struct ModulateBackward {
  DType dtype;
  std::int64_t rows, channels;
  const void* x;                 // [rows, C]
  const void* modulation;        // [rows, 2 C]
  const void* dy;                // [rows, C]
  const void* dx_add = nullptr;  // [rows, C]; may be dx
  void* dx = nullptr;            // [rows, C]; null: not computed
  void* dmodulation = nullptr;   // [rows, 2 C]; null: not computed
};
void run(CpuQueue&, const ModulateBackward&);
void run(CudaQueue&, const ModulateBackward&);

// Modulates samples: y[b, t, c] = x[b, t, c] (1 + scale[b, c]) + shift[b, c].
// A row of `modulation` holds the shifts of a sample, and then its scales.
struct ModulateSamplesForward {
  DType dtype;
  std::int64_t batch, tokens, channels;
  const void* x;           // [B, T, C]
  const void* modulation;  // [B, 2 C], accumulator type
  void* y;                 // [B, T, C]; may be x
};
void run(CpuQueue&, const ModulateSamplesForward&);
void run(CudaQueue&, const ModulateSamplesForward&);

//    dx = dy (1 + scale) + dx_add
//    dshift[b, c] = sum_t dy
//    dscale[b, c] = sum_t dy x
struct ModulateSamplesBackward {
  DType dtype;
  std::int64_t batch, tokens, channels;
  const void* x;                 // [B, T, C]
  const void* modulation;        // [B, 2 C], accumulator type
  const void* dy;                // [B, T, C]
  const void* dx_add = nullptr;  // [B, T, C]; may be dx
  void* dx = nullptr;            // [B, T, C]; null: not computed
  void* dmodulation = nullptr;   // [B, 2 C], accumulator type; null: not computed
};
void run(CpuQueue&, const ModulateSamplesBackward&);
void run(CudaQueue&, const ModulateSamplesBackward&);

// Gates a branch: y[b, t, c] = gain[b, c] x[b, t, c] + (residual[b, t, c] or 0).
struct GateForward {
  DType dtype;
  std::int64_t batch, tokens, channels;
  const void* x;                   // [B, T, C]
  const void* gain;                // [B, C]
  const void* residual = nullptr;  // [B, T, C]; may be y
  void* y;                         // [B, T, C]; may be x
};
void run(CpuQueue&, const GateForward&);
void run(CudaQueue&, const GateForward&);

// dx = gain dy,   dgain[b, c] = sum_t dy x
struct GateBackward {
  DType dtype;
  std::int64_t batch, tokens, channels;
  const void* x;          // [B, T, C]
  const void* gain;       // [B, C]
  const void* dy;         // [B, T, C]
  void* dx = nullptr;     // [B, T, C]; null: not computed
  void* dgain = nullptr;  // [B, C]; null: not computed
};
void run(CpuQueue&, const GateBackward&);
void run(CudaQueue&, const GateBackward&);

// y[r, c] = gain[r] x[r, c] + shift[r]
struct ScaleShiftRowsForward {
  DType dtype;
  std::int64_t rows, channels;
  const void* x;      // [rows, C]
  const void* gain;   // [rows]
  const void* shift;  // [rows]
  void* y;            // [rows, C]; may be x
};
void run(CpuQueue&, const ScaleShiftRowsForward&);
void run(CudaQueue&, const ScaleShiftRowsForward&);

// dx = gain dy,   dgain[r] = sum_c dy x,   dshift[r] = sum_c dy
struct ScaleShiftRowsBackward {
  DType dtype;
  std::int64_t rows, channels;
  const void* x;           // [rows, C]
  const void* gain;        // [rows]
  const void* dy;          // [rows, C]
  void* dx = nullptr;      // [rows, C]; null: not computed
  void* dgain = nullptr;   // [rows]; null: not computed
  void* dshift = nullptr;  // [rows]; null: not computed
};
void run(CpuQueue&, const ScaleShiftRowsBackward&);
void run(CudaQueue&, const ScaleShiftRowsBackward&);

}  // namespace dtn
