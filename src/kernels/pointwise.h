// Small elementwise kernels. A dtype is float32, bfloat16 or float64 (anything else throws
// dtn::Error); bfloat16 is computed in float32 and rounded once, to nearest even. Sizes and
// pointers are the caller's to check.
#pragma once

#include <cstdint>

#include "dtn/core/dtype.h"
#include "dtn/core/philox.h"
#include "dtn/core/queue.h"

namespace dtn {

// y = x, converted between float32, bfloat16 and float64; float64 reaches bfloat16 through float32.
// A bfloat16 result below 2^-126 in magnitude may become 0 (the AVX-512 instruction does that).
struct Cast {
  DType from, to;
  std::int64_t count;
  const void* x;
  void* y;  // may be x when from == to
};
void run(CpuQueue&, const Cast&);

// y = a + b.
struct Add {
  DType dtype;
  std::int64_t count;
  const void* a;
  const void* b;
  void* y;  // may be a or b
};
void run(CpuQueue&, const Add&);

// y = scale[i / per_scale] x + (residual or 0); with one scale per sample this is drop path,
// forward and backward.
struct ScaleRows {
  DType dtype;
  std::int64_t count;
  std::int64_t per_scale;  // consecutive elements that share a scale
  const void* scale;       // [count / per_scale], accumulator type
  const void* x;
  const void* residual = nullptr;  // may be y
  void* y;                         // may be x
};
void run(CpuQueue&, const ScaleRows&);

// y = x mask / (1 - p), where mask of element i is 1 when philox_uniform(key, first + i) >= p.
// A dropped element is 0 whatever x is, p = 1 drops all. The backward pass is the same with dy for
// x.
struct Dropout {
  DType dtype;
  std::int64_t count;
  double p;
  PhiloxKey key;
  std::uint64_t first = 0;
  const void* x;
  void* y;  // may be x
};
void run(CpuQueue&, const Dropout&);

// scale[b] = 1 / (1 - p) when philox_uniform(key, first + b) >= p, else 0.
struct DropPathScales {
  DType dtype;  // accumulator type
  std::int64_t count;
  double p;
  PhiloxKey key;
  std::uint64_t first = 0;
  void* scale;
};
void run(CpuQueue&, const DropPathScales&);

// Cuts images into patches: patches[b, (gy, gx), (c, py, px)] = images[b, c, gy P + py, gx P + px].
struct Patchify {
  DType dtype;  // of patches; images are float32, or float64 for float64
  std::int64_t batch, channels, height, width, patch;
  const void* images;  // [B, channels, height, width]
  void* patches;       // [B, T, channels P P]
};
void run(CpuQueue&, const Patchify&);

// out[i] += sum over r of x[r, i]: the gradient of something added to every row. Rows are summed in
// chunks fixed by the shape, and these in order: the bits do not depend on the threads.
struct SumRows {
  DType dtype;  // of x; out has the accumulator type
  std::int64_t rows, columns;
  const void* x;
  void* out;
};
void run(CpuQueue&, const SumRows&);

// y[r, i] = x[r, i] + addend[i]; addend has the accumulator type.
struct AddToRows {
  DType dtype;
  std::int64_t rows, columns;
  const void* x;
  const void* addend;
  void* y;  // may be x
};
void run(CpuQueue&, const AddToRows&);

}  // namespace dtn
