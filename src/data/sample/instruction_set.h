// Selects the variant of a vectorised loop. Private to dtn_data.
#pragma once

namespace dtn {

// Returns the best level of this machine that the limit allows: 0 plain, 1 AVX2, 2 AVX-512 (F, BW,
// VL and DQ).
int instruction_set();

// Returns the variant for that level.
template <class Variant>
Variant& best_of(Variant& plain, Variant& avx2, Variant& avx512) {
  const int level = instruction_set();
  return level == 2 ? avx512 : level == 1 ? avx2 : plain;
}

// For tests: limits instruction_set() to `level` from now on.
void limit_instruction_set(int level);

}  // namespace dtn
