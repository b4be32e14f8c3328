// Element types. Plain data only: kernels for every device include this header.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dtn/core/host_device.h"

namespace dtn {

// Type of a tensor's elements.
enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat64, kInt64, kUInt8 };

// Bytes per element.
constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::kFloat32: return 4;
    case DType::kBFloat16: return 2;
    case DType::kFloat64: return 8;
    case DType::kInt64: return 8;
    case DType::kUInt8: return 1;
  }
  return 0;
}

// "float32", "bfloat16", ...
constexpr const char* name_of(DType t) {
  switch (t) {
    case DType::kFloat32: return "float32";
    case DType::kBFloat16: return "bfloat16";
    case DType::kFloat64: return "float64";
    case DType::kInt64: return "int64";
    case DType::kUInt8: return "uint8";
  }
  return "?";
}

// True for the floating-point types.
constexpr bool is_floating(DType t) { return t != DType::kInt64 && t != DType::kUInt8; }

// The upper half of a float32: 8 exponent bits, 7 fraction bits. Conversion rounds to nearest even
// and keeps NaN a NaN.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  DTN_HOST_DEVICE explicit bfloat16(float value) {
    std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x0040u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  DTN_HOST_DEVICE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// The DType of a C++ type, as DTypeOf<T>::value.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kUInt8;
};

// The accumulator type of T, for statistics, reductions and parameter gradients: float32 for
// float32 and bfloat16, float64 for float64.
constexpr DType accumulator_of(DType t) {
  return t == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}
// accumulator_of() as a C++ type.
template <class T>
using AccumulatorOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace dtn
