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
  EXPECT_EQ(bytes_text(0), "0 MiB");
  EXPECT_EQ(bytes_text(1), "1 byte");
  EXPECT_EQ(bytes_text(9999), "9999 bytes");
  EXPECT_EQ(bytes_text(100'000), "0.0954 MiB");
  EXPECT_EQ(bytes_text(1023.0 * 1048576), "1023 MiB");
  EXPECT_EQ(bytes_text(1.5 * 1073741824), "1.50 GiB");
}

TEST(Counted, UsesTheSingularForOne) {
  EXPECT_EQ(counted(1, "images"), "1 image");
  EXPECT_EQ(counted(0, "images"), "0 images");
  EXPECT_EQ(counted(2, "damaged sequences"), "2 damaged sequences");
  EXPECT_EQ(counted(1, "classes"), "1 class");
}

}  // namespace
}  // namespace dtn
