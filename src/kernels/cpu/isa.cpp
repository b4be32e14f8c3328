#include "kernels/cpu/isa.h"

#include <cstdlib>
#include <cstring>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr Isa kAll[] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512};

Isa best_of_machine() {
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
  const Isa limit = best_of_machine();
  const char* wanted = std::getenv("DTN_ISA");
  const Isa* best = nullptr;
  for (const Isa& isa : kAll) {
    if (!is_built(isa) || isa > limit) continue;
    if (wanted && std::strcmp(wanted, name_of(isa)) == 0) return isa;
    best = &isa;
  }
  if (!best) {
    throw Error(cat(
        "this program was built without kernels for this machine, whose best instruction set is ",
        name_of(limit), "; configure with -DDTN_ISAS=all"));
  }
  return *best;
}

}  // namespace

Isa current_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

bool is_built(Isa isa) {
  switch (isa) {
#if defined(DTN_HAVE_ISA_generic)
    case Isa::kGeneric: return true;
#endif
#if defined(DTN_HAVE_ISA_avx2)
    case Isa::kAvx2: return true;
#endif
#if defined(DTN_HAVE_ISA_avx512)
    case Isa::kAvx512: return true;
#endif
    default: return false;
  }
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
