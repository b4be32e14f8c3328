#if defined(__x86_64__) && !defined(__clang__)

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "dtn/core/dtype.h"

// Only what follows may use the instruction set; the headers above are shared with other files.
#pragma GCC target("avx2,fma,f16c")
#define DTN_ISA isa_avx2_cases
#define DTN_ISA_avx2 1

#include "unit/kernels/simd_cases.h"

DTN_SIMD_TESTS(SimdAvx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))

#endif
