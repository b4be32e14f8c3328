// Which variant of a vectorised loop to run. Private to dtn_data.
#pragma once

namespace dtn {

// 0 plain, 1 AVX2, 2 AVX-512 (F, BW, VL, DQ): what this machine has and the limit allows.
int instruction_set();

// For tests: use at most this one from now on.
void limit_instruction_set(int level);

}  // namespace dtn
