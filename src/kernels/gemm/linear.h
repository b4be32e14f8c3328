// The linear layer y = x W^T + b. Later operations are fused into the product's tiles while they
// are in cache. W is [out, in], as in timm and PyTorch.
//
// dtype is the type of the activations and of W. Bias, scales and parameter gradients have the
// accumulator type (float32; float64 for float64). Activation gradients are written (=), parameter
// gradients are accumulated (+=).
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// z = x W^T + bias, summed in the accumulator type, then one of
//   y = z
//   y = gelu(z)                                  (exact, or with gelu_tanh that of activation.h)
//   y = residual + row_scale[row / rows_per_scale] z   (either may be missing)
// and y is rounded once. With gelu, z is first rounded to dtype, so that the backward pass, which
// reads the stored z, finds exactly the h of the forward pass. On a CUDA device z is also rounded
// before it is scaled, and dy W before gelu', because separate kernels compute these there.
struct LinearForward {
  DType dtype;
  std::int64_t rows, in, out;
  const void* x;               // [rows, in]
  const void* weight;          // [out, in]
  const void* bias = nullptr;  // [out], accumulator type
  void* y;                     // [rows, out]
  bool gelu = false;
  void* preactivation = nullptr;    // [rows, out] dtype: receives z if set (with gelu)
  const void* residual = nullptr;   // [rows, out] dtype; may be y
  const void* row_scale = nullptr;  // [rows / rows_per_scale], accumulator type; null: 1
  std::int64_t rows_per_scale = 1;
  // [out] in dtype, a copy of bias. CUDA products add a bias of their own type and read it here; if
  // it is null, they round `bias` each time. The CPU always adds `bias`.
  const void* bias_as_dtype = nullptr;
  bool gelu_tanh = false;  // with gelu: the approximation by tanh

  double multiply_adds() const { return static_cast<double>(rows) * static_cast<double>(in * out); }
};
void run(CpuQueue&, const LinearForward&);
void run(CudaQueue&, const LinearForward&);

// dx = dy W. With `preactivation` z of the layer below, whose output h = gelu(z) was this layer's
// input: dx = (dy W) gelu'(z). With `activation`, h is recomputed into it for the weight gradient.
// With `activation` = `preactivation`, h replaces z, which saves a pass over memory.
struct LinearBackwardInput {
  DType dtype;
  std::int64_t rows, in, out;
  const void* dy;                       // [rows, out]
  const void* weight;                   // [out, in]
  void* dx;                             // [rows, in]
  const void* preactivation = nullptr;  // [rows, in]
  void* activation = nullptr;           // [rows, in]
  // With preactivation: the bias gradient of the layer below, [in] in the accumulator type, += the
  // sum of the rows of dx.
  void* dbias = nullptr;
  bool gelu_tanh = false;  // as in the forward pass

  double multiply_adds() const { return static_cast<double>(rows) * static_cast<double>(in * out); }
};
void run(CpuQueue&, const LinearBackwardInput&);
void run(CudaQueue&, const LinearBackwardInput&);

// dweight += dy^T x,  dbias += sum of the rows of dy. Either may be null.
struct LinearBackwardWeight {
  DType dtype;
  std::int64_t rows, in, out;
  const void* dy;  // [rows, out]
  const void* x;   // [rows, in]
  void* dweight;   // [out, in], accumulator type
  void* dbias;     // [out], accumulator type

  double multiply_adds() const {
    return dweight ? static_cast<double>(rows) * static_cast<double>(in * out) : 0;
  }
};
void run(CpuQueue&, const LinearBackwardWeight&);
void run(CudaQueue&, const LinearBackwardWeight&);

// y = gelu(x) and dx = dy gelu'(x), elementwise. Relative error below 4 epsilons of float32; for
// bfloat16 below an eighth of the rounding of the result. gelu(-inf) = 0, NaN stays NaN.
struct GeluForward {
  DType dtype;
  std::int64_t count;
  const void* x;
  void* y;
};
void run(CpuQueue&, const GeluForward&);
void run(CudaQueue&, const GeluForward&);
struct GeluBackward {
  DType dtype;
  std::int64_t count;
  const void* x;
  const void* dy;
  void* dx;  // may be dy
};
void run(CpuQueue&, const GeluBackward&);
void run(CudaQueue&, const GeluBackward&);

}  // namespace dtn
