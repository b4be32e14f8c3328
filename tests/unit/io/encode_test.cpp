#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "dtn/core/check.h"
#include "io/crc32c.h"
#include "io/image/image_encode.h"
#include "io/image/stored_png.h"

namespace dtn {
namespace {

Image smooth_image(int width, int height, int channels) {
  Image image{width, height, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        image.pixels.push_back(static_cast<std::uint8_t>((3 * x + 2 * y + 40 * c) % 200 + 20));
      }
    }
  }
  return image;
}

TEST(Encode, PngRoundTrips) {
  for (int channels : {1, 3}) {
    for (auto [width, height] : {std::pair{1, 1}, {17, 5}, {300, 211}}) {
      const Image image = smooth_image(width, height, channels);
      std::vector<std::byte> file(7);
      encode_png(image, file);
      const Image back = decode_image(file, "png", {}, ColorMode::kAsStored);
      EXPECT_EQ(back.width, width);
      EXPECT_EQ(back.channels, channels);
      EXPECT_EQ(back.pixels, image.pixels);
    }
  }
}

TEST(Encode, StoredPngRoundTripsWithFixedBytes) {
  for (int channels : {1, 3}) {
    // The last size needs more than one block.
    for (auto [width, height] : {std::pair{1, 1}, {17, 5}, {300, 211}}) {
      const Image image = smooth_image(width, height, channels);
      std::vector<std::byte> file(7);
      encode_stored_png(image, file);
      EXPECT_LT(file.size(), image.pixels.size() + height + 100);
      const Image back = decode_image(file, "png", {}, ColorMode::kAsStored);
      EXPECT_EQ(back.width, width);
      EXPECT_EQ(back.channels, channels);
      EXPECT_EQ(back.pixels, image.pixels);
    }
  }
  std::vector<std::byte> file;
  encode_stored_png(smooth_image(2, 1, 1), file);
  // Signature 8, IHDR 25, IDAT 12 + 2 + 5 + 3 + 4, IEND 12.
  EXPECT_EQ(file.size(), 71u);
  const std::uint8_t stream[] = {0x78, 1, 1, 3, 0, 0xfc, 0xff, 0, 20, 23};
  for (std::size_t i = 0; i < std::size(stream); ++i) {
    EXPECT_EQ(static_cast<int>(file[41 + i]), stream[i]) << i;
  }
  // 255 rows of 257 bytes are one whole block, which is the last one.
  encode_stored_png(smooth_image(256, 255, 1), file);
  EXPECT_EQ(decode_image(file, "png", {}, ColorMode::kGray).pixels,
            smooth_image(256, 255, 1).pixels);
  EXPECT_THROW(encode_stored_png(Image{2, 2, 3, {}}, file), Error);
}

TEST(Encode, PngWithPalette) {
  const std::vector<std::array<std::uint8_t, 3>> palette = {{0, 0, 0}, {10, 20, 30}, {255, 0, 7}};
  std::vector<std::byte> file;
  encode_png(3, 2, std::vector<std::uint8_t>{1, 2, 1, 2, 2, 1}, palette, file);
  const Image back = decode_image(file, "png", {}, ColorMode::kRgb);
  ASSERT_EQ(back.width, 3);
  ASSERT_EQ(back.height, 2);
  EXPECT_EQ(back.pixels, (std::vector<std::uint8_t>{10, 20, 30, 255, 0, 7, 10, 20, 30, 255, 0, 7,
                                                    255, 0, 7, 10, 20, 30}));
  EXPECT_THROW(encode_png(1, 1, std::vector<std::uint8_t>{3}, palette, file), Error);
  EXPECT_THROW(encode_png(2, 1, std::vector<std::uint8_t>{0}, palette, file), Error);
}

TEST(Encode, JpegErrorFallsWithQuality) {
  for (int channels : {1, 3}) {
    Image image = smooth_image(90, 61, channels);
    double errors[2];
    for (int i : {0, 1}) {
      std::vector<std::byte> file(3);
      encode_jpeg(image, i ? 95 : 30, file);
      const Image back = decode_image(file, "jpeg", {}, ColorMode::kAsStored);
      ASSERT_EQ(back.width, 90);
      ASSERT_EQ(back.height, 61);
      ASSERT_EQ(back.channels, channels);
      double sum = 0;
      for (std::size_t p = 0; p < image.pixels.size(); ++p) {
        sum += std::abs(int{image.pixels[p]} - int{back.pixels[p]});
      }
      errors[i] = sum / static_cast<double>(image.pixels.size());
    }
    EXPECT_LT(errors[1], 5);
    EXPECT_LT(errors[1], errors[0]);
  }
  std::vector<std::byte> file;
  EXPECT_THROW(encode_jpeg(smooth_image(65501, 1, 1), 90, file), Error);  // libjpeg's limit
  EXPECT_THROW(encode_jpeg(smooth_image(4, 4, 3), 0, file), Error);
  EXPECT_THROW(encode_jpeg(Image{4, 4, 3, {}}, 90, file), Error);
}

TEST(Crc32c, HardwareAndPortableVersionsAgree) {
  std::string text;
  for (unsigned i = 0; i < 300; ++i) text += static_cast<char>(i * i * 7 + i);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    const std::uint32_t crc = crc32c(bytes.first(n));
    EXPECT_EQ(crc, detail::crc32c_portable(bytes.first(n), 0)) << n;
    EXPECT_EQ(crc, crc32c(bytes.first(n).subspan(n / 3), crc32c(bytes.first(n / 3)))) << n;
  }
  for (unsigned i = 0; i < 40'000; ++i) text += static_cast<char>(i * i * 13 + i / 7);
  const auto longer = std::as_bytes(std::span(text.data(), text.size()));  // several lanes long
  for (std::size_t n : {12'287, 12'288, 12'289, 24'575, 24'576, 36'871, 40'300}) {
    EXPECT_EQ(crc32c(longer.first(n), 7), detail::crc32c_portable(longer.first(n), 7)) << n;
  }
  const std::string check = "123456789";  // check value of RFC 3720
  EXPECT_EQ(crc32c(std::as_bytes(std::span(check.data(), check.size()))), 0xe3069283u);
}

}  // namespace
}  // namespace dtn
