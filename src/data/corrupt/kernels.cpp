#include "data/corrupt/kernels.h"

#include <cstring>

#include "data/sample/instruction_set.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

#define DTN_INLINE inline __attribute__((always_inline))
#define DTN_CORRUPT_KERNELS                                                             \
  philox, normals, add_noise, add_relative_noise, impulses, sum64, product32, paired64, \
      add_paired32, between, add_between, to_bytes, blend, change_hsv

namespace plain {
constexpr int kVectorBytes = 16;
#define DTN_TARGET
#include "data/corrupt/kernels_body.inc"
constexpr Kernels kKernels = {DTN_CORRUPT_KERNELS};
#undef DTN_TARGET
}  // namespace plain

#if defined(__x86_64__)
namespace avx2 {
constexpr int kVectorBytes = 32;
#define DTN_TARGET __attribute__((target("avx2")))
#include "data/corrupt/kernels_body.inc"
constexpr Kernels kKernels = {DTN_CORRUPT_KERNELS};
#undef DTN_TARGET
}  // namespace avx2

namespace avx512 {
constexpr int kVectorBytes = 64;
#define DTN_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#include "data/corrupt/kernels_body.inc"
constexpr Kernels kKernels = {DTN_CORRUPT_KERNELS};
#undef DTN_TARGET
}  // namespace avx512
#endif

}  // namespace

const Kernels& kernels() {
#if defined(__x86_64__)
  const int level = instruction_set();
  if (level == 2) return avx512::kKernels;
  if (level == 1) return avx2::kKernels;
#endif
  return plain::kKernels;
}

}  // namespace dtn::corrupt
