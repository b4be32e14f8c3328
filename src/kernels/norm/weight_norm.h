// Weight normalisation (Salimans & Kingma, NeurIPS 2016). Row k of a weight has a direction v_k and
// a length g_k:
//    w_k = g_k v_k / |v_k| = scale_k v_k,    scale_k = g_k / |v_k|
// So a product with w_k is the product with v_k, times scale_k.
// All values have the accumulator type. A direction of length 0 gives no finite scale.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct WeightNormScale {
  DType dtype;
  std::int64_t rows, columns;      // K, D
  const void* direction;           // [K, D]
  const void* gain;                // [K]
  void* scale;                     // [K]
  void* inverse_length = nullptr;  // [K]: 1 / |v_k|, for backward
};
void run(CpuQueue&, const WeightNormScale&);
void run(CudaQueue&, const WeightNormScale&);

// Gradients through the scale. The rest of the direction's gradient is that of the product with
// v_k. With the gradient ds of the scaled products s_k = scale_k z_k,
//    sums_k = sum of ds_k z_k over the rows of the products
//    dgain_k += sums_k / |v_k|
//    ddirection_k -= v_k sums_k scale_k / |v_k|^2
struct WeightNormBackward {
  DType dtype;
  std::int64_t rows, columns;
  const void* direction;       // [K, D]
  const void* gain;            // [K]
  const void* inverse_length;  // [K]
  const void* sums;            // [K]
  void* dgain = nullptr;       // [K], +=
  void* ddirection = nullptr;  // [K, D], +=
};
void run(CpuQueue&, const WeightNormBackward&);
void run(CudaQueue&, const WeightNormBackward&);

}  // namespace dtn
