// Epilogues of a linear layer on one tile of its product, while the tile is in cache. Pointers are
// to the tile's first element; the tile is [rows, cols]. Serial.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// z = product + bias, rounded to dtype if gelu follows; then y = z, gelu(z), or
// residual + row_scale z.
struct LinearEpilogue {
  DType dtype;  // of y, preactivation, residual
  std::int64_t rows, cols;
  const void* product;  // accumulator type
  std::int64_t ld_product;
  const void* bias;  // [cols], accumulator type, or null
  bool gelu, gelu_tanh;
  void* preactivation;   // or null
  const void* residual;  // or null; may be y
  // [..], accumulator type, or null; row r uses row_scale[(first_row + r) / rows_per_scale].
  const void* row_scale;
  std::int64_t first_row, rows_per_scale;
  void* y;
  std::int64_t ld;  // of y, preactivation, residual
};
void run(CpuQueue&, const LinearEpilogue&);

// dx = product gelu'(z), activation = gelu(z), exact or with gelu_tanh that of activation.h.
struct LinearGeluGradient {
  DType dtype;  // of z, activation, dx
  std::int64_t rows, cols;
  const void* product;  // accumulator type
  std::int64_t ld_product;
  bool gelu_tanh;
  const void* z;
  void* activation;  // or null
  void* dx;
  std::int64_t ld;
};
void run(CpuQueue&, const LinearGeluGradient&);

}  // namespace dtn
