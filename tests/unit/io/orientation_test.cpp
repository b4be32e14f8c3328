// EXIF orientations: DecodeOptions::upright against Pillow's ImageOps.exif_transpose().
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "golden/data/fixtures.h"
#include "io/image/image_encode.h"

namespace dtn {
namespace {

using Bytes = std::vector<std::byte>;

constexpr DecodeOptions kUpright{.upright = true};
constexpr std::array kFiles = {"rotated.jpg", "rotated.png", "lossy_rotated.webp"};

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Returns the file with another orientation, which Pillow writes as a big-endian short.
Bytes file_with(const std::string& name, int orientation) {
  Bytes bytes = golden::image_bytes(name);
  const Bytes entry = bytes_of({1, 0x12, 0, 3, 0, 0, 0, 1, 0});
  const auto found = std::ranges::search(bytes, entry);
  EXPECT_FALSE(found.empty()) << name;
  *found.end() = static_cast<std::byte>(orientation);
  return bytes;
}

// Returns a JPEG with the segment APP1 "Exif" of that content behind its first two bytes.
Bytes jpeg_with_exif(const Bytes& tiff, int kept = -1) {
  Bytes segment =
      bytes_of({0xFF, 0xE1, 0, static_cast<int>(8 + tiff.size()), 'E', 'x', 'i', 'f', 0, 0});
  segment.insert(segment.end(), tiff.begin(), tiff.end());
  if (kept >= 0) segment.resize(static_cast<std::size_t>(kept));
  Bytes file = golden::image_bytes("420.jpg");
  file.insert(file.begin() + 2, segment.begin(), segment.end());
  return file;
}

int orientation_with(std::initializer_list<int> tiff) {
  return exif_orientation(jpeg_with_exif(bytes_of(tiff)));
}

TEST(Orientation, EqualsPillowBitForBit) {
  auto table = golden::open_table("upright.txt");
  std::string name;
  int orientation, width, height, count = 0;
  std::uint32_t rgb, gray;
  while (table >> name >> orientation >> width >> height >> rgb >> gray) {
    const Bytes file = file_with(name, orientation);
    const bool is_valid = 1 <= orientation && orientation <= 8;
    EXPECT_EQ(exif_orientation(file), is_valid ? orientation : 1);
    const ImageInfo info = read_image_info(file, name, kUpright);
    EXPECT_EQ(info.width, width) << name << " " << orientation;
    EXPECT_EQ(info.height, height) << name << " " << orientation;
    EXPECT_EQ(golden::crc(decode_image(file, name, kUpright)), rgb) << name << " " << orientation;
    EXPECT_EQ(golden::crc(decode_image(file, name, kUpright, ColorMode::kGray)), gray)
        << name << " " << orientation;
    ++count;
  }
  EXPECT_EQ(count, 30);
}

TEST(Orientation, IsIgnoredByDefault) {
  for (const char* name : kFiles) {
    const Bytes stored = file_with(name, 1), turned = file_with(name, 6);
    EXPECT_EQ(decode_image(turned, name).pixels, decode_image(stored, name).pixels) << name;
    EXPECT_EQ(read_image_info(turned, name).width, read_image_info(stored, name).width);
  }
}

// Returns columns [x0, x1) of rows [y0, y1).
std::vector<std::uint8_t> part_of(const Image& image, const ImageRegion& r) {
  std::vector<std::uint8_t> pixels;
  for (int y = r.y0; y < r.y1; ++y) {
    const auto row = image.pixels.begin() + std::ptrdiff_t{y} * image.width * image.channels;
    pixels.insert(pixels.end(), row + r.x0 * image.channels, row + r.x1 * image.channels);
  }
  return pixels;
}

TEST(Orientation, RegionsAndScalesEqualPartsOfTheUprightImage) {
  std::mt19937 random(3);
  const auto draw = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<unsigned>(to - from));
  };
  for (const char* name : kFiles) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const Bytes file = file_with(name, orientation);
      const ImageInfo info = read_image_info(file, name, kUpright);
      EXPECT_EQ(info.scalable, std::string(name) == "rotated.jpg");
      for (int eighths : {8, 4, 2, 1}) {
        if (eighths < 8 && !info.scalable) continue;
        Image whole, part;
        decode_image_scaled(file, name, {0, 0, info.width, info.height}, eighths, whole, kUpright);
        for (int i = 0; i < 10; ++i) {
          const int x0 = draw(0, info.width), y0 = draw(0, info.height);
          const ImageRegion region{x0, y0, draw(x0, info.width) + 1, draw(y0, info.height) + 1};
          decode_image_scaled(file, name, region, eighths, part, kUpright);
          EXPECT_EQ(part.pixels, part_of(whole, scaled_region(region, eighths)))
              << name << " " << orientation << " at " << eighths << "/8";
        }
      }
    }
  }
}

// Reduced pixels are counted from the stored corner, so mirrored sides must be divisible by 8.
TEST(Orientation, OddMirroredSidesAreNotScaled) {
  const Image image = golden::procedural_image(1, 44, 40);
  const auto scalable = [&](int orientation) {
    Bytes file;
    encode_jpeg(image, 90, file, HuffmanCodes::kStandard, orientation);
    EXPECT_EQ(exif_orientation(file), orientation);
    return read_image_info(file, "a.jpg", kUpright).scalable;
  };
  const std::array<bool, 8> expected = {true, false, false, true, true, true, false, false};
  for (int o = 1; o <= 8; ++o)
    EXPECT_EQ(scalable(o), expected[static_cast<std::size_t>(o - 1)]) << o;
}

TEST(Orientation, IsReadFromBothByteOrdersAndAnyPlace) {
  EXPECT_EQ(
      orientation_with({'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0}),
      6);
  EXPECT_EQ(
      orientation_with({'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 4, 0, 0, 0, 1, 0, 0, 0, 3}),
      3);
  // Behind another entry, in a directory that begins later.
  EXPECT_EQ(orientation_with({'M', 'M', 0, 42, 0, 0,  0, 10,   9, 9, 0, 2, 1, 0x0F, 0, 2, 0, 0,
                              0,   9,   0, 0,  0, 99, 1, 0x12, 0, 3, 0, 0, 0, 1,    0, 8, 0, 0}),
            8);
}

TEST(Orientation, DamagedExifCountsAsNone) {
  const Bytes good =
      bytes_of({'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0});
  EXPECT_EQ(exif_orientation(jpeg_with_exif(good)), 6);
  for (std::size_t i :
       {0u, 3u, 7u, 9u, 10u, 11u, 17u}) {  // order, magic, begin, count, tag, length
    Bytes bad = good;
    bad[i] = std::byte{200};
    if (i == 9) bad[10] = std::byte{77};
    EXPECT_EQ(exif_orientation(jpeg_with_exif(bad)), 1) << i;
  }
  for (std::size_t size = 0; size < good.size() - 2; ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(exif_orientation(jpeg_with_exif(cut)), 1) << size;
  }
  // A file that ends within the segment.
  Bytes file = jpeg_with_exif(good);
  for (std::size_t size = 0; size < 32; ++size) {
    EXPECT_EQ(exif_orientation(std::span(file).first(size)), 1) << size;
  }
  EXPECT_EQ(exif_orientation({}), 1);
}

TEST(Orientation, EncoderWritesWhatDecodersRead) {
  const Image image = golden::procedural_image(2, 16, 8);
  Bytes plain, turned;
  encode_jpeg(image, 90, plain);
  EXPECT_EQ(exif_orientation(plain), 1);
  for (int orientation = 2; orientation <= 8; ++orientation) {
    encode_jpeg(image, 90, turned, HuffmanCodes::kStandard, orientation);
    EXPECT_EQ(exif_orientation(turned), orientation);
    EXPECT_EQ(decode_image(turned, "a.jpg").pixels, decode_image(plain, "a.jpg").pixels);
  }
}

// Decodes the files in a process of its own, since the warning comes once in a process.
void expect_warning(std::initializer_list<const char*> files, const char* text) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        for (const char* name : files) decode_image(golden::image_bytes(name), name);
        std::fputs("end", stderr);
        std::exit(0);
      },
      testing::ExitedWithCode(0), text);
}

TEST(GrayOf16Bits, IsClippedWithOneWarning) {
  constexpr const char* kWarning = ": 16-bit grey values above 255 are read as white[^\n]*\nend$";
  expect_warning({"gray8.png", "rgb16.png", "gray.pgm", "gray_7.pgm"}, "^end$");
  expect_warning({"gray8.png", "gray16.png", "gray_wide.pgm"}, cat("gray16.png", kWarning).c_str());
  expect_warning({"gray_wide.pgm", "gray16.png"}, cat("gray_wide.pgm", kWarning).c_str());
}

}  // namespace
}  // namespace dtn
