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

// The best instruction set of this machine, or what DTN_ISA=generic|avx2|avx512 in the environment
// asks for if the machine has it. kAvx512 means AVX-512 F/BW/VL/DQ with BF16.
Isa current_isa();
const char* name_of(Isa isa);

}  // namespace dtn

#if !defined(DTN_ISA)  // a plain file
#define DTN_DISPATCH(Arguments)
#elif !defined(DTN_ISA_generic)  // the generic build carries the dispatcher
#define DTN_DISPATCH(Arguments)
#elif DTN_ISA_COUNT == 1
#define DTN_DISPATCH(Arguments)                      \
  namespace dtn {                                    \
  void run(CpuQueue& queue, const Arguments& args) { \
    FlushDenormals flush;                            \
    isa_generic::run(queue, args);                   \
  }                                                  \
  }
#else
#define DTN_DISPATCH(Arguments)                                 \
  namespace dtn {                                               \
  namespace isa_avx2 {                                          \
  void run(CpuQueue& queue, const Arguments& args);             \
  }                                                             \
  namespace isa_avx512 {                                        \
  void run(CpuQueue& queue, const Arguments& args);             \
  }                                                             \
  void run(CpuQueue& queue, const Arguments& args) {            \
    FlushDenormals flush;                                       \
    switch (current_isa()) {                                    \
      case Isa::kAvx512: return isa_avx512::run(queue, args);   \
      case Isa::kAvx2: return isa_avx2::run(queue, args);       \
      case Isa::kGeneric: return isa_generic::run(queue, args); \
    }                                                           \
  }                                                             \
  }
#endif
