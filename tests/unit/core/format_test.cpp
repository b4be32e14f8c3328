#include "core/format.h"

#include <gtest/gtest.h>

namespace dtn {
namespace {

TEST(Format, MatchesPrintf) {
  EXPECT_EQ(format("%+.*f of %lld %s, %%", 2, 1.005, 12345678901ll, "images"),
            "+1.00 of 12345678901 images, %");
  EXPECT_EQ(format("%s", ""), "");
}

TEST(Format, AcceptsTextOfAnyLength) {
  const std::string long_text(100'000, 'x');
  EXPECT_EQ(format("<%s>", long_text.c_str()), "<" + long_text + ">");
}

TEST(BytesText, HasThreeOrFourDigits) {
  EXPECT_EQ(counted(1, "images"), "1 image");
  EXPECT_EQ(counted(0, "images"), "0 images");
  EXPECT_EQ(counted(2, "damaged sequences"), "2 damaged sequences");
  EXPECT_EQ(counted(1, "classes"), "1 class");
}

}  // namespace
}  // namespace dtn
