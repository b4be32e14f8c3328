// JPEGs decoded at a smaller scale, and files refused before memory is allocated.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <span>

#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "golden/data/fixtures.h"

namespace dtn {
namespace {

using Bytes = std::vector<std::byte>;

struct Scaled {
  std::string name;
  int eighths, width, height;
  std::uint32_t rgb;
};

std::vector<Scaled> scaled_fixtures() {
  std::vector<Scaled> all;
  auto table = golden::open_table("scaled.txt");
  Scaled s;
  while (table >> s.name >> s.eighths >> s.width >> s.height >> s.rgb) all.push_back(s);
  EXPECT_GT(all.size(), 60u);
  return all;
}

Image decode_scaled(const Bytes& bytes, int eighths, const ImageRegion& region,
                    ColorMode mode = ColorMode::kRgb) {
  Image out;
  decode_image_scaled(bytes, "a file", region, eighths, out, {}, mode);
  return out;
}

ImageRegion all_of(const Bytes& bytes) {
  const ImageInfo info = read_image_info(bytes, "a file");
  return {0, 0, info.width, info.height};
}

TEST(ScaledImage, MatchesPillowDraftBitForBit) {
  for (const Scaled& s : scaled_fixtures()) {
    const Bytes bytes = golden::image_bytes(s.name);
    const Image image = decode_scaled(bytes, s.eighths, all_of(bytes));
    EXPECT_EQ(image.width, s.width) << s.name;
    EXPECT_EQ(image.height, s.height) << s.name;
    EXPECT_EQ(golden::crc(image), s.rgb) << s.name << " at " << s.eighths << "/8";
  }
}

TEST(ScaledImage, RegionsEqualPartOfWholeImage) {
  std::mt19937 random(7);
  for (const Scaled& s : scaled_fixtures()) {
    if (s.eighths != 1) continue;  // each file once
    const Bytes bytes = golden::image_bytes(s.name);
    const ImageRegion full = all_of(bytes);
    for (int eighths = 1; eighths <= 8; ++eighths) {
      const Image whole = decode_scaled(bytes, eighths, full);
      for (int i = 0; i < 20; ++i) {
        const auto pick = [&](int n) {
          return static_cast<int>(random() % static_cast<unsigned>(n));
        };
        const int x0 = pick(full.x1), y0 = pick(full.y1);
        const ImageRegion region{x0, y0, x0 + 1 + pick(full.x1 - x0), y0 + 1 + pick(full.y1 - y0)};
        const Image part = decode_scaled(bytes, eighths, region);
        const ImageRegion at = scaled_region(region, eighths);
        ASSERT_EQ(part.width, at.x1 - at.x0);
        ASSERT_EQ(part.height, at.y1 - at.y0);
        const auto row = static_cast<std::size_t>(3 * part.width);
        for (int y = 0; y < part.height; ++y)
          ASSERT_EQ(
              std::memcmp(
                  &part.pixels[static_cast<std::size_t>(y) * row],
                  &whole.pixels[static_cast<std::size_t>(3 * ((y + at.y0) * whole.width + at.x0))],
                  row),
              0)
              << s.name << " at " << eighths << "/8, region " << region.x0 << " " << region.y0
              << " " << region.x1 << " " << region.y1;
      }
    }
  }
}

TEST(ScaledImage, FullScaleEqualsExactDecode) {
  for (const Scaled& s : scaled_fixtures()) {
    const Bytes bytes = golden::image_bytes(s.name);
    for (ColorMode mode : {ColorMode::kRgb, ColorMode::kGray})
      EXPECT_EQ(decode_scaled(bytes, 8, all_of(bytes), mode).pixels,
                decode_image(bytes, s.name, {}, mode).pixels);
  }
}

TEST(ScaledImage, RegionsRoundOutwards) {
  const auto expect = [](ImageRegion r, int eighths, ImageRegion to) {
    const ImageRegion got = scaled_region(r, eighths);
    EXPECT_EQ(got.x0, to.x0);
    EXPECT_EQ(got.y0, to.y0);
    EXPECT_EQ(got.x1, to.x1);
    EXPECT_EQ(got.y1, to.y1);
  };
  expect({3, 8, 9, 16}, 4, {1, 4, 5, 8});
  expect({7, 9, 8, 10}, 1, {0, 1, 1, 2});
  expect({0, 0, 65500, 65499}, 1, {0, 0, 8188, 8188});
  expect({5, 6, 7, 8}, 8, {5, 6, 7, 8});
}

TEST(ScaledImage, OnlyJpegIsScalable) {
  for (const char* name : {"rgb8.png", "png_inside.jpg", "24bit.bmp"}) {
    const Bytes bytes = golden::image_bytes(name);
    EXPECT_FALSE(read_image_info(bytes, name).scalable) << name;
    EXPECT_THROW(decode_scaled(bytes, 4, all_of(bytes)), Error);
    EXPECT_EQ(decode_scaled(bytes, 8, all_of(bytes)).pixels, decode_image(bytes, name).pixels);
  }
  const Bytes jpeg = golden::image_bytes("420.jpg");
  EXPECT_TRUE(read_image_info(jpeg, "a file").scalable);
  for (int eighths : {-1, 0, 9}) EXPECT_THROW(decode_scaled(jpeg, eighths, all_of(jpeg)), Error);
}

// Every prefix of a file, except for the last few bytes, is refused at any scale and region.
TEST(ScaledImage, RejectsTruncationAtEveryByte) {
  for (const char* name : {"420_tiny.jpg", "arithmetic_progressive.jpg", "palette2.png"}) {
    const Bytes bytes = golden::image_bytes(name);
    const ImageRegion full = all_of(bytes);
    Image out;
    for (std::size_t size = 0; size + 8 < bytes.size(); ++size) {
      const auto cut = std::span(bytes).first(size);
      EXPECT_THROW(decode_image_into(cut, name, out), DataError) << name << " cut to " << size;
      const int eighths = std::string(name).ends_with(".jpg") ? 1 << size % 4 : 8;
      try {
        decode_image_scaled(cut, name, {full.x1 - 1, 0, full.x1, 1}, eighths, out);
        ADD_FAILURE() << name << " cut to " << size << " was decoded";
      } catch (const DataError&) {
      } catch (const Error&) {  // too short to be a JPEG, so it has no scales
        EXPECT_LT(size, 3u);
      }
    }
  }
}

// The kinds of JPEG that libjpeg-turbo does not decode into 8 bits.
TEST(ScaledImage, RejectsUnsupportedKindsOfJpeg) {
  const Bytes good = golden::image_bytes("420.jpg");
  const std::byte sof[] = {std::byte{0xFF}, std::byte{0xC0}};
  const auto at = std::ranges::search(good, sof).begin() - good.begin();
  const auto error_with = [&](std::ptrdiff_t offset, int value) {
    Bytes bytes = good;
    bytes[static_cast<std::size_t>(at + offset)] = static_cast<std::byte>(value);
    try {
      decode_image(bytes, "x.jpg");
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error_with(4, 12).find("precision 12"), std::string::npos);
  for (int kind : {0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF})  // lossless, hierarchical
    EXPECT_NE(error_with(1, kind).find("x.jpg"), std::string::npos) << kind;
  EXPECT_NE(error_with(9, 2).find("x.jpg"), std::string::npos);  // two components
}

#if !defined(DTN_SANITIZED)
std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void put(Bytes& bytes, std::size_t at, std::initializer_list<int> values) {
  for (int v : values) bytes[at++] = static_cast<std::byte>(v);
}

// Runs in a separate process with 16 MiB left to allocate. 65500 x 65500 pixels need 12 GiB, so the
// header must suffice to refuse the file.
void refuse_huge_headers() {
  Bytes jpeg = golden::image_bytes("420.jpg"), progressive = golden::image_bytes("progressive.jpg");
  for (Bytes* bytes : {&jpeg, &progressive}) {
    for (std::size_t i = 0; i + 8 < bytes->size(); ++i)
      if ((*bytes)[i] == std::byte{0xFF} &&
          ((*bytes)[i + 1] == std::byte{0xC0} || (*bytes)[i + 1] == std::byte{0xC2}))
        put(*bytes, i + 5, {0xFF, 0xDC, 0xFF, 0xDC});
  }
  Bytes png = golden::image_bytes("rgb8.png");
  put(png, 16, {0, 0, 0xFF, 0xDC, 0, 0, 0xFF, 0xDC});
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(&png[12]), 17);
  for (std::size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<std::byte>(sum >> (24 - 8 * i));
  Bytes bmp = golden::image_bytes("24bit.bmp");
  put(bmp, 18, {0xDC, 0xFF, 0, 0, 0xDC, 0xFF, 0, 0});

  const rlim_t limit = address_space() + (16u << 20);
  const rlimit space{limit, limit};
  if (::setrlimit(RLIMIT_AS, &space) != 0) _exit(10);
  for (const Bytes* bytes : {&jpeg, &progressive, &png, &bmp}) {
    for (int eighths : {1, 8}) {
      Image out;
      try {
        decode_image_scaled(*bytes, "huge", {0, 0, 1, 1},
                            bytes == &png || bytes == &bmp ? 8 : eighths, out);
        _exit(11);
      } catch (const DataError& e) {
        if (!std::strstr(e.what(), "65500 x 65500 pixels")) _exit(12);
      }
    }
  }
  _exit(0);
}

TEST(ScaledImageDeathTest, RejectsHugeHeadersBeforeAllocating) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(refuse_huge_headers(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace dtn
