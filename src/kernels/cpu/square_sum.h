// Sum of squares of float32 vectors in float64; float32 sums would lose digits.
#pragma once

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

struct SquareSum {
  using VecD = Vec<double>;
  typedef float HalfF __attribute__((vector_size(kVectorBytes / 2)));
  VecD sums[2] = {};

  void add(VecF v) {
    HalfF halves[2];
    std::memcpy(halves, &v, sizeof v);
    for (int k = 0; k < 2; ++k) {
      const VecD wide = __builtin_convertvector(halves[k], VecD);
      sums[k] = sums[k] + wide * wide;
    }
  }
  double total() const { return reduce_add(sums[0] + sums[1]); }
};

}  // namespace dtn::DTN_ISA
