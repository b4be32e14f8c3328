// One kernel source for several instruction sets. Each vectorised kernel file is compiled once per
// set, in a separate namespace (DTN_ISA), where it defines `run(CpuQueue&, const Arguments&)`.
// DTN_DISPATCH(Arguments), at the end of the file, adds the public dtn::run, which calls the best
// build for the machine. The whole kernel treats denormals as 0, also on the calling thread.
#pragma once

#include "core/queue.h"
#include "dtn/core/denormals.h"

namespace dtn {

enum class Isa { kGeneric, kAvx2, kAvx512 };

// Returns the best instruction set that both this machine and the build have.
// DTN_ISA=generic|avx2|avx512 in the environment selects another one that both have. kAvx512 means
// AVX-512 F/BW/VL/DQ with BF16. Throws Error if there is none.
Isa current_isa();
// Returns true if kernels were built for it; see DTN_ISAS in cmake/Layers.cmake.
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
// Cases that call the builds in a switch over Isa.
#define DTN_CASES_OF_BUILDS(queue, args) \
  DTN_CASE_GENERIC(queue, args)          \
  DTN_CASE_AVX2(queue, args)             \
  DTN_CASE_AVX512(queue, args)           \
  default:                               \
    return;

#if !defined(DTN_ISA_DISPATCHES)  // a plain file, or not the build with the dispatcher
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
