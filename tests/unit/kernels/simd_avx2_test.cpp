#if defined(__x86_64__) && !defined(__clang__)

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "dtn/core/dtype.h"

// Only the code below may use the instruction set: other files share the headers above.
#pragma GCC target("avx2,fma,f16c")
#define DTN_ISA isa_avx2_cases
#define DTN_ISA_avx2 1

#include "unit/kernels/simd_cases.h"

DTN_SIMD_TESTS(SimdAvx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))

#endif
