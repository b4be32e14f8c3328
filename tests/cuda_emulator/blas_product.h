// One matrix product as the emulator's cuBLASLt computes it, column-major:
//    D = alpha op(A) op(B) + beta C, plus a bias in every column.
#pragma once

#include <cstdint>

namespace emu {

// Column-major float32 or bfloat16. Element (i, j) of product n is at n stride + i + j ld.
struct BlasMatrix {
  const void* values;
  bool is_bfloat16;
  std::int64_t ld, stride;
};

struct BlasProduct {
  std::int64_t rows, columns, depth, batch;  // of D; depth: number of summed terms
  BlasMatrix a, b, c, d;
  bool transpose_a, transpose_b;
  bool tf32;           // factors are rounded to 10 fraction bits
  float alpha, beta;   // C is not read if beta is 0
  const void* bias;    // [rows] of D's type, or null
  std::int64_t parts;  // parts of the depth; more than 1 are summed in the workspace
  float* workspace;    // [parts, batch, columns, rows]
};
void multiply(const BlasProduct& product);

}  // namespace emu
