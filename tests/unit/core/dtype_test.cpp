#include "dtn/core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace dtn {
namespace {

std::uint16_t rounded(std::uint32_t float_bits) {
  return bfloat16(std::bit_cast<float>(float_bits)).bits;
}

TEST(BFloat16, RoundsToNearest) {
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);  // 1
  EXPECT_EQ(rounded(0x3f807fff), 0x3f80);  // below the tie
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);  // above it
  EXPECT_EQ(rounded(0xbf808001), 0xbf81);
}

TEST(BFloat16, TiesGoToEven) {
  EXPECT_EQ(rounded(0x3f808000), 0x3f80);
  EXPECT_EQ(rounded(0x3f818000), 0x3f82);
  EXPECT_EQ(rounded(0xbf818000), 0xbf82);
  EXPECT_EQ(rounded(0x3fff8000), 0x4000);  // carries into the exponent
}

TEST(BFloat16, InfinityAndOverflow) {
  EXPECT_EQ(rounded(0x7f800000), 0x7f80);
  EXPECT_EQ(rounded(0xff800000), 0xff80);
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80);  // the largest float32 rounds up to infinity
  EXPECT_EQ(rounded(0x7f7f7fff), 0x7f7f);  // the largest finite bfloat16
}

TEST(BFloat16, NaNStaysNaN) {
  for (std::uint32_t u :
       {0x7fc00000u, 0x7f800001u, 0x7f80ffffu, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    std::uint16_t bits = rounded(u);
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(u))))) << std::hex << u;
    EXPECT_EQ(bits >> 15, u >> 31) << "sign";
  }
}

TEST(BFloat16, DenormalsAndZero) {
  EXPECT_EQ(rounded(0x00000000), 0x0000);
  EXPECT_EQ(rounded(0x80000000), 0x8000);
  EXPECT_EQ(rounded(0x00000001), 0x0000);
  EXPECT_EQ(rounded(0x00008000), 0x0000);  // half of the smallest denormal, to even
  EXPECT_EQ(rounded(0x00008001), 0x0001);
  EXPECT_EQ(rounded(0x00018000), 0x0002);
  EXPECT_EQ(rounded(0x007fffff), 0x0080);  // up to the smallest normal number
}

TEST(BFloat16, EveryValueRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    bfloat16 h;
    h.bits = static_cast<std::uint16_t>(bits);
    float f = static_cast<float>(h);
    if (std::isnan(f)) continue;
    ASSERT_EQ(bfloat16(f).bits, bits);
  }
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kFloat32), sizeof(float));
  EXPECT_EQ(size_of(DType::kBFloat16), sizeof(bfloat16));
  EXPECT_EQ(size_of(DType::kFloat64), sizeof(double));
  EXPECT_EQ(size_of(DType::kInt64), sizeof(std::int64_t));
  EXPECT_EQ(size_of(DType::kUInt8), 1u);
  EXPECT_STREQ(name_of(DType::kBFloat16), "bfloat16");
  EXPECT_STREQ(name_of(DType::kUInt8), "uint8");
  EXPECT_TRUE(is_floating(DType::kBFloat16));
  EXPECT_FALSE(is_floating(DType::kInt64));
  EXPECT_EQ(accumulator_of(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(accumulator_of(DType::kFloat64), DType::kFloat64);
}

}  // namespace
}  // namespace dtn
