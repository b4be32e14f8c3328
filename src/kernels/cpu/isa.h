// One kernel source, several instruction sets. Each vectorised kernel file is compiled once per set
// into a namespace of its own (DTN_ISA), where it defines `run(CpuQueue&, const Arguments&)`.
// DTN_DISPATCH(Arguments), at the end of the file, adds the public dtn::run that picks the best one
// the machine offers. All of a kernel, what it does on the calling thread alone too, is computed
// with denormals taken for 0.
#pragma once

#include "core/queue.h"
#include "dtn/core/denormals.h"

namespace dtn {

enum class Isa { kGeneric, kAvx2, kAvx512 };

// The best instruction set that this machine has and the build, or what
// DTN_ISA=generic|avx2|avx512 in the environment asks for if both have it. kAvx512 means AVX-512
// F/BW/VL/DQ with BF16. Throws Error where there is none.
Isa current_isa();
// Whether kernels were built for it; see DTN_ISAS in cmake/Layers.cmake.
bool is_built(Isa isa);
const char* name_of(Isa isa);

}  // namespace dtn

#if defined(DTN_HAVE_ISA_generic)
#define DTN_DECLARE_GENERIC(Arguments)              \
  namespace isa_generic {                           \
  void run(CpuQueue& queue, const Arguments& args); \
  }
#define DTN_CASE_GENERIC(queue, args) \
  case Isa::kGeneric:                 \
    return isa_generic::run(queue, args);
#else
#define DTN_DECLARE_GENERIC(Arguments)
#define DTN_CASE_GENERIC(queue, args)
#endif

#if defined(DTN_HAVE_ISA_avx2)
#define DTN_DECLARE_AVX2(Arguments)                 \
  namespace isa_avx2 {                              \
  void run(CpuQueue& queue, const Arguments& args); \
  }
#define DTN_CASE_AVX2(queue, args) \
  case Isa::kAvx2:                 \
    return isa_avx2::run(queue, args);
#else
#define DTN_DECLARE_AVX2(Arguments)
#define DTN_CASE_AVX2(queue, args)
#endif

#if defined(DTN_HAVE_ISA_avx512)
#define DTN_DECLARE_AVX512(Arguments)               \
  namespace isa_avx512 {                            \
  void run(CpuQueue& queue, const Arguments& args); \
  }
#define DTN_CASE_AVX512(queue, args) \
  case Isa::kAvx512:                 \
    return isa_avx512::run(queue, args);
#else
#define DTN_DECLARE_AVX512(Arguments)
#define DTN_CASE_AVX512(queue, args)
#endif

// Declares the builds of one kernel.
#define DTN_DECLARE_BUILDS(Arguments) \
  DTN_DECLARE_GENERIC(Arguments)      \
  DTN_DECLARE_AVX2(Arguments)         \
  DTN_DECLARE_AVX512(Arguments)
// What a switch over Isa calls them by.
#define DTN_CASES_OF_BUILDS(queue, args) \
  DTN_CASE_GENERIC(queue, args)          \
  DTN_CASE_AVX2(queue, args)             \
  DTN_CASE_AVX512(queue, args)           \
  default:                               \
    return;

#if !defined(DTN_ISA_DISPATCHES)  // a plain file, or not the build that carries the dispatcher
#define DTN_DISPATCH(Arguments)
#else
#define DTN_DISPATCH(Arguments)                                 \
  namespace dtn {                                               \
  DTN_DECLARE_BUILDS(Arguments)                                 \
  void run(CpuQueue& queue, const Arguments& args) {            \
    FlushDenormals flush;                                       \
    switch (current_isa()) { DTN_CASES_OF_BUILDS(queue, args) } \
  }                                                             \
  }
#endif
