#include "data/corrupt/kernels.h"

#include "data/sample/instruction_set.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

#define DTN_INLINE inline __attribute__((always_inline))

namespace plain {
constexpr int kVectorBytes = 16;
#define DTN_TARGET
#include "data/corrupt/kernels_body.inc"
#undef DTN_TARGET
}  // namespace plain

#if defined(__x86_64__)
namespace avx2 {
constexpr int kVectorBytes = 32;
#define DTN_TARGET __attribute__((target("avx2")))
#include "data/corrupt/kernels_body.inc"
#undef DTN_TARGET
}  // namespace avx2

namespace avx512 {
constexpr int kVectorBytes = 64;
#define DTN_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#include "data/corrupt/kernels_body.inc"
#undef DTN_TARGET
}  // namespace avx512
#else
namespace avx2 = plain;
namespace avx512 = plain;
#endif

}  // namespace

const Kernels& kernels() { return best_of(plain::kKernels, avx2::kKernels, avx512::kKernels); }

}  // namespace dtn::corrupt
