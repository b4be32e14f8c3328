// A separate namespace keeps these inline functions apart from the library's.
#define DTN_ISA isa_generic_cases

#include "unit/kernels/simd_cases.h"

DTN_SIMD_TESTS(SimdGeneric, true)
