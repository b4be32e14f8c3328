// kernels/gemm/linear.h on a CUDA device. Each layer is one cuBLASLt product. It adds the bias, and
// a residual that nothing scales, to its float32 sums and rounds once. A separate kernel does the
// rest, on the product rounded to the type of the activations:
//   gelu        z + bias into `preactivation`, then h = gelu(z): one more read and write. The
//               library's own GELU is the tanh approximation, not the exact one.
//   row_scale   z + bias into scratch, then y = residual + row_scale z: one more write and read.
//   gelu'       dy W into dx, then one kernel that reads dx and the preactivation once and writes
//               dz over dx, the sum of dz over its rows, and h.
#include "kernels/gemm/linear.h"

#include <optional>

#include "cuda/matmul.h"
#include "dtn/core/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/gelu_backward.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

using Bytes = DeviceScratch<std::byte>;

Bytes take(CudaQueue& queue, DType dtype, std::int64_t count) {
  return queue.scratch<std::byte>(count * static_cast<std::int64_t>(size_of(dtype)));
}

bool is_bias_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % cuda::kBiasAlignment == 0;
}

// Returns the bias in the type of the activations, aligned for a product: the given bias if it
// fits, otherwise a converted copy in `scratch`.
const void* fused_bias(CudaQueue& queue, const LinearForward& l, std::optional<Bytes>& scratch) {
  const void* ready = l.dtype == accumulator_of(l.dtype) ? l.bias : l.bias_as_dtype;
  if (ready && is_bias_aligned(ready)) return ready;
  scratch.emplace(take(queue, l.dtype, l.out));
  run(queue, Cast{accumulator_of(l.dtype), l.dtype, l.out, l.bias, scratch->get()});
  return scratch->get();
}

// Computes y = product + bias + residual by separate kernels if the library cannot add the bias.
void add_bias_apart(CudaQueue& queue, const LinearForward& l, const cuda::Matmul& fused) {
  std::int64_t count = l.rows * l.out;
  cuda::Matmul product = fused;
  product.bias = product.c = nullptr;
  product.d_dtype = DType::kFloat32;
  Bytes sums = take(queue, product.d_dtype, count);
  product.d = sums.get();
  cuda::multiply(queue, product);
  run(queue, AddToRows{product.d_dtype, l.rows, l.out, sums.get(), l.bias, sums.get()});
  if (!fused.c) {
    run(queue, Cast{product.d_dtype, l.dtype, count, sums.get(), fused.d});
    return;
  }
  Bytes rounded = take(queue, l.dtype, count);
  run(queue, Cast{product.d_dtype, l.dtype, count, sums.get(), rounded.get()});
  run(queue, Add{l.dtype, count, rounded.get(), fused.c, fused.d});
}

// z = x W^T + bias (+ residual)
void multiply(CudaQueue& queue, const LinearForward& l, const void* residual, void* z) {
  cuda::Matmul p{l.dtype, l.dtype, l.rows, l.out, l.in, l.x, l.weight, z, l.in, l.in, l.out};
  p.transpose_b = true;
  p.c = residual;
  if (!l.bias) return cuda::multiply(queue, p);
  std::optional<Bytes> scratch;
  p.bias = fused_bias(queue, l, scratch);
  if (!cuda::try_multiply(queue, p)) add_bias_apart(queue, l, p);
}

}  // namespace

void run(CudaQueue& queue, const LinearForward& l) {
  DTN_CHECK(l.rows_per_scale > 0, "rows_per_scale is ", l.rows_per_scale, ", but must be positive");
  DTN_CHECK(!l.gelu || (!l.residual && !l.row_scale),
            "a linear layer cannot have both gelu and a residual");
  DTN_CHECK(l.gelu || !l.preactivation, "a linear layer stores the preactivation only with gelu");
  DTN_CHECK(l.in > 0, "a linear layer with no inputs");
  std::int64_t count = l.rows * l.out;
  if (count == 0) return;
  std::optional<Bytes> scratch;
  auto apart = [&] { return scratch.emplace(take(queue, l.dtype, count)).get(); };
  if (l.gelu) {
    void* z = l.preactivation ? l.preactivation : apart();
    multiply(queue, l, nullptr, z);
    if (l.gelu_tanh) {
      run(queue, ActivationForward{l.dtype, Activation::kGeluTanh, count, z, l.y});
    } else {
      run(queue, GeluForward{l.dtype, count, z, l.y});
    }
  } else if (l.row_scale) {
    void* z = apart();
    multiply(queue, l, nullptr, z);
    run(queue,
        ScaleRows{l.dtype, count, l.rows_per_scale * l.out, l.row_scale, z, l.residual, l.y});
  } else {
    multiply(queue, l, l.residual, l.y);
  }
}

void run(CudaQueue& queue, const LinearBackwardInput& l) {
  DTN_CHECK(l.out > 0, "a linear layer with no outputs");
  DTN_CHECK(l.preactivation || !l.activation,
            "the activation is recomputed from the preactivation, which is missing");
  DTN_CHECK(l.preactivation || !l.dbias, "dbias needs the preactivation");
  if (l.rows == 0 || l.in == 0) return;
  cuda::multiply(queue,
                 {l.dtype, l.dtype, l.rows, l.in, l.out, l.dy, l.weight, l.dx, l.out, l.in, l.in});
  if (!l.preactivation) return;
  run(queue, MlpGeluBackward{l.dtype, l.rows, l.in, l.preactivation, l.dx, l.dx, l.activation,
                             l.dbias, l.gelu_tanh});
}

void run(CudaQueue& queue, const LinearBackwardWeight& l) {
  if (l.rows == 0 || l.out == 0) return;
  if (!l.dweight) {
    if (l.dbias) run(queue, SumRows{l.dtype, l.rows, l.out, l.dy, l.dbias});
    return;
  }
  Gemm g{l.dtype, accumulator_of(l.dtype), l.out, l.in, l.rows, l.dy, l.x, l.dweight, l.out, l.in,
         l.in};
  g.transpose_a = true;
  g.accumulate = true;
  g.a_sums = l.dbias;
  run(queue, g);
}

}  // namespace dtn
