// PTX instructions of warpgroup.cuh, for nvcc. They exist only for the architecture sm_90a; for
// others they compile to a trap, and are not called.
#pragma once

#include <cstdint>

namespace dtn::cuda::detail {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define DTN_WGMMA_ASM(...) asm volatile(__VA_ARGS__)
#else
#define DTN_WGMMA_ASM(...) __trap()
#endif

__device__ __forceinline__ void wgmma_fence() {
  DTN_WGMMA_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  DTN_WGMMA_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Makes this thread's writes to shared memory visible to products.
__device__ __forceinline__ void fence_proxy_async() {
  DTN_WGMMA_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}
template <int kGroups>
__device__ __forceinline__ void wgmma_wait() {
  DTN_WGMMA_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// Stops the compiler from moving a read of d above the preceding wait.
template <int N>
__device__ __forceinline__ void settle(float (&d)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(d[n][i])::"memory");
  }
}

// Names of the first registers of an asm statement, eight per macro.
// clang-format off
#define DTN_P0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define DTN_P8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define DTN_P16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define DTN_P24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define DTN_P32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define DTN_P40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define DTN_P48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define DTN_P56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define DTN_P64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define DTN_P72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define DTN_P80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define DTN_P88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define DTN_P96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define DTN_P104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define DTN_P112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define DTN_P120 "%120, %121, %122, %123, %124, %125, %126, %127"
// clang-format on

// Values of d as operands of an asm statement, one fragment per DTN_D.
#define DTN_D(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define DTN_D4(n) DTN_D(n), DTN_D(n + 1), DTN_D(n + 2), DTN_D(n + 3)
#define DTN_D8(n) DTN_D4(n), DTN_D4(n + 4)
#define DTN_D16(n) DTN_D8(n), DTN_D8(n + 8)

// d = a b, or d += a b if `add`: the instruction for `columns` columns of b, with a in registers or
// in shared memory. The operand numbers continue after those of d.
#define DTN_WGMMA_TEXT(columns, registers, a, b, add, immediates)                             \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " add                                                     \
  ", 0;\n"                                                                                    \
  "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" registers "}, " a ", " b \
  ", p, 1, 1, " immediates ";\n}"

template <bool kAlongRows>
__device__ __forceinline__ void wgmma(float (&d)[6][4], const unsigned (&a)[4], std::uint64_t b,
                                      bool add) {
  DTN_WGMMA_ASM(DTN_WGMMA_TEXT(48, DTN_P0 ", " DTN_P8 ", " DTN_P16, "{%24, %25, %26, %27}", "%28",
                               "%29", "%30")
                : DTN_D4(0), DTN_D(4), DTN_D(5)
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
                  "n"(static_cast<int>(kAlongRows)));
}

template <bool kAlongRows>
__device__ __forceinline__ void wgmma(float (&d)[8][4], const unsigned (&a)[4], std::uint64_t b,
                                      bool add) {
  DTN_WGMMA_ASM(DTN_WGMMA_TEXT(64, DTN_P0 ", " DTN_P8 ", " DTN_P16 ", " DTN_P24,
                               "{%32, %33, %34, %35}", "%36", "%37", "%38")
                : DTN_D8(0)
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
                  "n"(static_cast<int>(kAlongRows)));
}

template <bool kAlongRows>
__device__ __forceinline__ void wgmma(float (&d)[26][4], const unsigned (&a)[4], std::uint64_t b,
                                      bool add) {
  DTN_WGMMA_ASM(DTN_WGMMA_TEXT(208,
                               DTN_P0 ", " DTN_P8 ", " DTN_P16 ", " DTN_P24 ", " DTN_P32
                                      ", " DTN_P40 ", " DTN_P48 ", " DTN_P56 ", " DTN_P64
                                      ", " DTN_P72 ", " DTN_P80 ", " DTN_P88 ", " DTN_P96,
                               "{%104, %105, %106, %107}", "%108", "%109", "%110")
                : DTN_D16(0), DTN_D8(16), DTN_D(24), DTN_D(25)
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
                  "n"(static_cast<int>(kAlongRows)));
}

template <bool kAlongRows>
__device__ __forceinline__ void wgmma(float (&d)[32][4], const unsigned (&a)[4], std::uint64_t b,
                                      bool add) {
  DTN_WGMMA_ASM(
      DTN_WGMMA_TEXT(256,
                     DTN_P0 ", " DTN_P8 ", " DTN_P16 ", " DTN_P24 ", " DTN_P32 ", " DTN_P40
                            ", " DTN_P48 ", " DTN_P56 ", " DTN_P64 ", " DTN_P72 ", " DTN_P80
                            ", " DTN_P88 ", " DTN_P96 ", " DTN_P104 ", " DTN_P112 ", " DTN_P120,
                     "{%128, %129, %130, %131}", "%132", "%133", "%134")
      : DTN_D16(0), DTN_D16(16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
        "n"(static_cast<int>(kAlongRows)));
}

template <bool kAAlongRows, bool kBAlongRows>
__device__ __forceinline__ void wgmma(float (&d)[4][4], std::uint64_t a, std::uint64_t b,
                                      bool add) {
  DTN_WGMMA_ASM(DTN_WGMMA_TEXT(32, DTN_P0 ", " DTN_P8, "%16", "%17", "%18", "%19, %20")
                : DTN_D4(0)
                : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(static_cast<int>(kAAlongRows)),
                  "n"(static_cast<int>(kBAlongRows)));
}

template <bool kAAlongRows, bool kBAlongRows>
__device__ __forceinline__ void wgmma(float (&d)[6][4], std::uint64_t a, std::uint64_t b,
                                      bool add) {
  DTN_WGMMA_ASM(DTN_WGMMA_TEXT(48, DTN_P0 ", " DTN_P8 ", " DTN_P16, "%24", "%25", "%26", "%27, %28")
                : DTN_D4(0), DTN_D(4), DTN_D(5)
                : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(static_cast<int>(kAAlongRows)),
                  "n"(static_cast<int>(kBAlongRows)));
}

template <bool kAAlongRows, bool kBAlongRows>
__device__ __forceinline__ void wgmma(float (&d)[8][4], std::uint64_t a, std::uint64_t b,
                                      bool add) {
  DTN_WGMMA_ASM(DTN_WGMMA_TEXT(64, DTN_P0 ", " DTN_P8 ", " DTN_P16 ", " DTN_P24, "%32", "%33",
                               "%34", "%35, %36")
                : DTN_D8(0)
                : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(static_cast<int>(kAAlongRows)),
                  "n"(static_cast<int>(kBAlongRows)));
}

#undef DTN_WGMMA_ASM
#undef DTN_WGMMA_TEXT
#undef DTN_D
#undef DTN_D4
#undef DTN_D8
#undef DTN_D16
#undef DTN_P0
#undef DTN_P8
#undef DTN_P16
#undef DTN_P24
#undef DTN_P32
#undef DTN_P40
#undef DTN_P48
#undef DTN_P56
#undef DTN_P64
#undef DTN_P72
#undef DTN_P80
#undef DTN_P88
#undef DTN_P96
#undef DTN_P104
#undef DTN_P112
#undef DTN_P120

}  // namespace dtn::cuda::detail
