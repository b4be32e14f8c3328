// Small elementwise kernels. A dtype is float32, bfloat16 or float64; any other throws dtn::Error.
// bfloat16 is computed in float32 and rounded once, to nearest even. The caller must check sizes
// and pointers.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "dtn/core/philox.h"

namespace dtn {

// y = x, converted between float32, bfloat16 and float64. float64 goes to bfloat16 through float32.
// A bfloat16 result below 2^-126 in magnitude may become 0 (the AVX-512 instruction does that).
struct Cast {
  DType from, to;
  std::int64_t count;
  const void* x;
  void* y;  // may be x when from == to
};
void run(CpuQueue&, const Cast&);
void run(CudaQueue&, const Cast&);

// y = a + b.
struct Add {
  DType dtype;
  std::int64_t count;
  const void* a;
  const void* b;
  void* y;  // may be a or b
};
void run(CpuQueue&, const Add&);
void run(CudaQueue&, const Add&);

//    y[i] = scale[i / per_scale] x[i] + (residual[i] or 0)
// With one scale per sample, this is drop path, forward and backward.
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
void run(CudaQueue&, const ScaleRows&);

//    y[i] = x[i] mask[i] / (1 - p)
//    mask[i] = 1 if philox_uniform(key, number(i)) >= p, else 0
//    number(i) = first + i
// With `rows`, for element j of row r, where a `stride` of 0 stands for per_row:
//    number(i) = rows[r] stride + j
// With a `stride` and no `rows`:
//    number(i) = first + r stride + j
// A dropped element is 0 for any x, and p = 1 drops all. The backward pass is the same with dy
// for x.
struct ElementDropout {
  DType dtype;
  std::int64_t count;
  double p;
  PhiloxKey key;
  std::uint64_t first = 0;
  const void* x;
  void* y;  // may be x
  // Replaces key.step if set. On a device, it is the step of a captured graph; see StepInputs.
  const std::uint32_t* step = nullptr;
  const std::int64_t* rows = nullptr;  // [count / per_row], not negative
  std::int64_t per_row = 0;
  std::int64_t stride = 0;  // at least per_row, or 0

  bool by_rows() const { return rows || stride; }
  // Returns the number of a row's first element.
  DTN_HOST_DEVICE std::uint64_t number_of(std::int64_t row) const {
    const std::int64_t each = stride ? stride : per_row;
    return rows ? static_cast<std::uint64_t>(rows[row] * each)
                : first + static_cast<std::uint64_t>(row * each);
  }
};
void run(CpuQueue&, const ElementDropout&);
void run(CudaQueue&, const ElementDropout&);

//    scale[b] = 1 / (1 - p) if philox_uniform(key, number(b)) >= p, else 0
//    number(b) = rows[b] with `rows`, else first + b
struct DropPathScales {
  DType dtype;  // accumulator type
  std::int64_t count;
  double p;
  PhiloxKey key;
  std::uint64_t first = 0;
  void* scale;
  const std::uint32_t* step = nullptr;  // as in ElementDropout
  const std::int64_t* rows = nullptr;   // [count]
};
void run(CpuQueue&, const DropPathScales&);
void run(CudaQueue&, const DropPathScales&);

// Cuts images into patches of P x P pixels:
//    patches[b, (gy, gx), (c, py, px)] = images[b, c, gy P + py, gx P + px]
struct Patchify {
  DType dtype;  // of patches; images are float32, or float64 for float64
  std::int64_t batch, channels, height, width, patch;
  const void* images;  // [B, channels, height, width]
  void* patches;       // [B, T, channels P P]
};
void run(CpuQueue&, const Patchify&);
void run(CudaQueue&, const Patchify&);

//    out[i] += sum over r of x[r, i]
// This is the gradient of a vector that is added to every row. Rows are summed in chunks that
// depend only on the shape, and the chunks are added in order. So the bits do not depend on the
// number of threads.
struct SumRows {
  DType dtype;  // of x; out has the accumulator type
  std::int64_t rows, columns;
  const void* x;
  void* out;
};
void run(CpuQueue&, const SumRows&);
void run(CudaQueue&, const SumRows&);

// y[r, i] = x[r, i] + addend[i]; addend has the accumulator type.
struct AddToRows {
  DType dtype;
  std::int64_t rows, columns;
  const void* x;
  const void* addend;
  void* y;  // may be x
};
void run(CpuQueue&, const AddToRows&);
void run(CudaQueue&, const AddToRows&);

//    y[r, i] = x[r, i]
// Rows of x and y begin x_stride and y_stride elements apart; x_stride 0 repeats one row. Any
// element type. x and y must not overlap.
struct CopyRows {
  DType dtype;
  std::int64_t rows, columns;
  const void* x;
  std::int64_t x_stride;
  void* y;
  std::int64_t y_stride;
};
void run(CpuQueue&, const CopyRows&);
void run(CudaQueue&, const CopyRows&);

// y[b, i] = mean over r of x[b, r, i], summed in the accumulator type and rounded once.
struct MeanRows {
  DType dtype;
  std::int64_t batch, rows, columns;
  const void* x;  // [B, R, C]
  void* y;        // [B, C]
};
void run(CpuQueue&, const MeanRows&);
void run(CudaQueue&, const MeanRows&);

// Backward pass of MeanRows: dx[b, r, i] = dy[b, i] / rows.
struct SpreadMean {
  DType dtype;
  std::int64_t batch, rows, columns;
  const void* dy;  // [B, C]
  void* dx;        // [B, R, C]
};
void run(CpuQueue&, const SpreadMean&);
void run(CudaQueue&, const SpreadMean&);

// Sets y[0] to scale times the sum of x, or adds that to y[0]. The sum is taken in float64, in a
// fixed order.
struct Mean {
  DType dtype;  // float32 or float64
  std::int64_t count;
  const void* x;
  void* y;  // [1]
  double scale;
  bool accumulate = false;
};
void run(CpuQueue&, const Mean&);
void run(CudaQueue&, const Mean&);

// y = 1 / (1 + exp(-x)), for a few values.
struct Sigmoid {
  DType dtype;  // float32 or float64
  std::int64_t count;
  const void* x;
  void* y;
};
void run(CpuQueue&, const Sigmoid&);
void run(CudaQueue&, const Sigmoid&);

}  // namespace dtn
