#include "plot/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/core/check.h"

namespace dtn::plot {
namespace {

TEST(PlotText, EscapesMarkup) {
  EXPECT_EQ(escaped("<script>alert('x' & \"y\")</script>"),
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;");
}

TEST(PlotText, ReplacesInvalidXmlCharacters) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped(std::string("a\0b\x1b", 4)), "a" + mark + "b" + mark);
  EXPECT_EQ(escaped("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(escaped("\xC3"), mark);                        // cut
  EXPECT_EQ(escaped("\xC0\xBC"), mark + mark);             // an overlong <
  EXPECT_EQ(escaped("\xED\xA0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(escaped("a\nb\tc"), "a\nb\tc");
}

TEST(PlotText, CoordinatesAreShort) {
  EXPECT_EQ(coordinate(12), "12");
  EXPECT_EQ(coordinate(0.5), "0.5");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(-1.239), "-1.24");
  EXPECT_EQ(coordinate(100), "100");
  EXPECT_THROW(coordinate(std::nan("")), Error);
  EXPECT_THROW(coordinate(1e300), Error);
}

TEST(PlotText, FormatsNumbersForReaders) {
  EXPECT_EQ(readable(0.12345678), "0.1235");
  EXPECT_EQ(readable(0.0012346), "0.001235");
  EXPECT_EQ(readable(7.281), "7.281");
  EXPECT_EQ(readable(12345.6), "12346");
  EXPECT_EQ(readable(0), "0");
  EXPECT_EQ(readable(-2.5), "-2.5");
  EXPECT_EQ(readable(1.5e-7), "1.500e-07");
  EXPECT_EQ(readable(std::numeric_limits<double>::infinity()), "-");
}

TEST(PlotText, LongTextIsTruncatedToWidth) {
  EXPECT_EQ(fitted("short", 12, 100), "short");
  const std::string cut = fitted("a name that goes on and on and on", 12, 100);
  EXPECT_TRUE(cut.ends_with("\xE2\x80\xA6"));
  EXPECT_LE(text_width(cut, 12), 100);
  EXPECT_GT(text_width(cut, 12), 70);
  EXPECT_NO_THROW(fitted("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12, 20));
}

TEST(PlotText, Base64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xFF\xEE\xDD"), "/+7d");
}

}  // namespace
}  // namespace dtn::plot
