// Loads and stores of float32 and bfloat16 values, single or in 16-byte vectors, for computation in
// float32.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace dtn::cuda {

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(bfloat16 v) {
  return __uint_as_float(static_cast<unsigned>(v.bits) << 16);
}

// Packs two floats, rounded to nearest even bfloat16, with `low` in the lower half.
__device__ __forceinline__ unsigned pack_bfloat16(float low, float high) {
#if defined(__CUDA_ARCH__)
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return static_cast<unsigned>(bfloat16(low).bits) | static_cast<unsigned>(bfloat16(high).bits)
                                                         << 16;
#endif
}
__device__ __forceinline__ float low_bfloat16(unsigned packed) {
  return __uint_as_float(packed << 16);
}
__device__ __forceinline__ float high_bfloat16(unsigned packed) {
  return __uint_as_float(packed & 0xffff0000u);
}

template <class T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) {
  return v;
}
template <>
__device__ __forceinline__ bfloat16 from_float<bfloat16>(float v) {
  bfloat16 r;
  r.bits = static_cast<std::uint16_t>(pack_bfloat16(v, 0.0f));
  return r;
}

// Number of T in 16 bytes: 4 floats or 8 bfloat16.
template <class T>
inline constexpr int kPerVector = 16 / static_cast<int>(sizeof(T));

template <class T>
__device__ __forceinline__ void load_vector(const T* from, float (&to)[kPerVector<T>]);
template <>
__device__ __forceinline__ void load_vector<float>(const float* from, float (&to)[4]) {
  float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
template <>
__device__ __forceinline__ void load_vector<bfloat16>(const bfloat16* from, float (&to)[8]) {
  uint4 v = *reinterpret_cast<const uint4*>(from);
  to[0] = low_bfloat16(v.x), to[1] = high_bfloat16(v.x);
  to[2] = low_bfloat16(v.y), to[3] = high_bfloat16(v.y);
  to[4] = low_bfloat16(v.z), to[5] = high_bfloat16(v.z);
  to[6] = low_bfloat16(v.w), to[7] = high_bfloat16(v.w);
}

template <class T>
__device__ __forceinline__ void store_vector(T* to, const float (&from)[kPerVector<T>]);
template <>
__device__ __forceinline__ void store_vector<float>(float* to, const float (&from)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}
template <>
__device__ __forceinline__ void store_vector<bfloat16>(bfloat16* to, const float (&from)[8]) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(pack_bfloat16(from[0], from[1]), pack_bfloat16(from[2], from[3]),
                 pack_bfloat16(from[4], from[5]), pack_bfloat16(from[6], from[7]));
}

// Returns true if rows of `stride` values of T that begin at p can be read 16 bytes at a time.
template <class T>
inline bool is_vectorizable(const void* p, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0 &&
         static_cast<std::size_t>(stride) * sizeof(T) % 16 == 0;
}

}  // namespace dtn::cuda
