#if defined(__x86_64__) && !defined(__clang__)

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "dtn/core/dtype.h"

// Only the code below may use the instruction set: other files share the headers above. GCC 12
// gives warnings for its own AVX-512 headers.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,f16c")
#define DTN_ISA isa_avx512_cases
#define DTN_ISA_avx512 1

#include "unit/kernels/simd_cases.h"

DTN_SIMD_TESTS(SimdAvx512,
               __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512dq"))

#endif
