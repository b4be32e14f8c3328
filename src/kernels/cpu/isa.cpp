#include "kernels/cpu/isa.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace dtn {
namespace {

Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bf16")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kGeneric;
}

Isa choose_isa() {
  Isa best = best_isa();
  const char* wanted = std::getenv("DTN_ISA");
  if (!wanted) return best;
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    if (std::strcmp(wanted, name_of(isa)) == 0 && isa <= best) return isa;
  }
  return best;
}

}  // namespace

Isa current_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::kGeneric: return "generic";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "?";
}

}  // namespace dtn
