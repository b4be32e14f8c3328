// Selects the variant of a vectorised loop. Private to dtn_data.
#pragma once

namespace dtn {

// Returns the best level of this machine that the limit allows: 0 plain, 1 AVX2, 2 AVX-512 (F, BW,
// VL and DQ).
int instruction_set();

// For tests: limits instruction_set() to `level` from now on.
void limit_instruction_set(int level);

}  // namespace dtn
