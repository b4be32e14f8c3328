#include "dtn/io/image.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "dtn/core/check.h"
#include "golden/data/fixtures.h"
#include "io/file.h"
#include "temp_folder.h"

namespace dtn {
namespace {

using Bytes = std::vector<std::byte>;

struct Fixture {
  std::string name;
  int width, height, channels;
  std::uint32_t rgb, gray;
};

std::vector<Fixture> fixtures() {
  std::vector<Fixture> all;
  auto table = golden::open_table("images.txt");
  Fixture f;
  while (table >> f.name >> f.width >> f.height >> f.channels >> f.rgb >> f.gray) all.push_back(f);
  EXPECT_GT(all.size(), 40u);
  return all;
}

// Returns the message of the DataError that decoding throws; empty if decoding succeeds.
std::string error_of(const Bytes& bytes, const DecodeOptions& limits = {}) {
  try {
    decode_image(bytes, "folder/file.img", limits);
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("folder/file.img"), std::string::npos);
    return error.what();
  }
  return "";
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not contain \"" << part << "\"";
}

std::size_t find(const Bytes& bytes, const std::string& what) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const auto at = std::search(begin, begin + bytes.size(), what.begin(), what.end()) - begin;
  EXPECT_LT(static_cast<std::size_t>(at), bytes.size());
  return static_cast<std::size_t>(at);
}

void put_big_endian(Bytes& bytes, std::size_t at, std::uint32_t value, int size) {
  for (int i = 0; i < size; ++i)
    bytes[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * (size - 1 - i)));
}

Bytes jpeg_of_size(const std::string& name, int width, int height) {
  Bytes bytes = golden::image_bytes(name);
  const std::string marker = name.starts_with("progressive") ? "\xFF\xC2" : "\xFF\xC0";
  const std::size_t at = find(bytes, marker);
  put_big_endian(bytes, at + 5, static_cast<std::uint32_t>(height), 2);
  put_big_endian(bytes, at + 7, static_cast<std::uint32_t>(width), 2);
  return bytes;
}

void append_chunk(Bytes& file, const std::string& type, const Bytes& data) {
  const std::size_t at = file.size();
  file.resize(at + 12 + data.size());
  put_big_endian(file, at, static_cast<std::uint32_t>(data.size()), 4);
  std::memcpy(&file[at + 4], type.data(), 4);
  if (!data.empty()) std::memcpy(&file[at + 8], data.data(), data.size());
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(&file[at + 4]), 4 + data.size());
  put_big_endian(file, at + 8 + data.size(), static_cast<std::uint32_t>(sum), 4);
}

// An 8-bit gray PNG with the compressed data `raw`.
Bytes png_of(std::uint32_t width, std::uint32_t height, const Bytes& raw) {
  Bytes file;
  for (char c : {'\x89', 'P', 'N', 'G', '\r', '\n', '\x1A', '\n'})
    file.push_back(static_cast<std::byte>(c));
  Bytes header(13);
  put_big_endian(header, 0, width, 4);
  put_big_endian(header, 4, height, 4);
  header[8] = std::byte{8};
  append_chunk(file, "IHDR", header);
  uLongf size = compressBound(raw.size());
  Bytes data(size);
  compress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
           raw.size());
  data.resize(size);
  append_chunk(file, "IDAT", data);
  append_chunk(file, "IEND", {});
  return file;
}

TEST(Image, MatchesPillowBitForBit) {
  for (const Fixture& f : fixtures()) {
    const Bytes bytes = golden::image_bytes(f.name);
    const ImageInfo info = read_image_info(bytes, f.name);
    EXPECT_EQ(info.width, f.width) << f.name;
    EXPECT_EQ(info.height, f.height) << f.name;
    EXPECT_EQ(info.channels, f.channels) << f.name;
    const Image rgb = decode_image(bytes, f.name);
    EXPECT_EQ(rgb.width, f.width);
    EXPECT_EQ(rgb.height, f.height);
    EXPECT_EQ(rgb.channels, 3);
    EXPECT_EQ(golden::crc(rgb), f.rgb) << f.name;
    const Image gray = decode_image(bytes, f.name, {}, ColorMode::kGray);
    EXPECT_EQ(gray.channels, 1);
    EXPECT_EQ(golden::crc(gray), f.gray) << f.name;
    const Image stored = decode_image(bytes, f.name, {}, ColorMode::kAsStored);
    EXPECT_EQ(stored.channels, f.channels);
    EXPECT_EQ(golden::crc(stored), f.channels == 1 ? f.gray : f.rgb) << f.name;
  }
}

TEST(Image, RegionsEqualPartOfWholeImage) {
  std::mt19937 random(3);
  Image part;
  for (const Fixture& f : fixtures()) {
    const Bytes bytes = golden::image_bytes(f.name);
    const Image whole = decode_image(bytes, f.name);
    for (int i = 0; i < 60; ++i) {
      const auto pick = [&](int n) {
        return static_cast<int>(random() % static_cast<unsigned>(n));
      };
      const int x0 = pick(f.width), y0 = pick(f.height);
      const ImageRegion r{x0, y0, x0 + 1 + pick(f.width - x0), y0 + 1 + pick(f.height - y0)};
      decode_image_region(bytes, f.name, r, part);
      ASSERT_EQ(part.width, r.x1 - r.x0);
      ASSERT_EQ(part.height, r.y1 - r.y0);
      const auto row = static_cast<std::size_t>(3 * part.width);
      for (int y = 0; y < part.height; ++y)
        ASSERT_EQ(
            std::memcmp(&part.pixels[static_cast<std::size_t>(y) * row],
                        &whole.pixels[static_cast<std::size_t>(3 * ((y + y0) * whole.width + x0))],
                        row),
            0)
            << f.name << " region " << r.x0 << " " << r.y0 << " " << r.x1 << " " << r.y1;
    }
    EXPECT_THROW(decode_image_region(bytes, f.name, {0, 0, f.width + 1, 1}, part), Error);
    EXPECT_THROW(decode_image_region(bytes, f.name, {0, 0, 0, 1}, part), Error);
  }
}

TEST(Image, RejectsTruncatedFiles) {
  for (const Fixture& f : fixtures()) {
    const Bytes bytes = golden::image_bytes(f.name);
    // The end marker, and the padding of a BMP's last row, may be missing.
    const std::size_t spare = 8;
    for (std::size_t size = 0; size + spare < bytes.size(); size += 1 + bytes.size() / 97) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_NE(error_of(cut), "") << f.name << " cut to " << size;
      Image part;
      EXPECT_THROW(decode_image_region(cut, f.name, {0, 0, 1, 1}, part), DataError) << f.name;
    }
    const Bytes half(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() - 9));
    EXPECT_TRUE(contains(error_of(half), "cut short")) << f.name;
  }
}

TEST(Image, DamagedFilesNeverCrash) {
  std::mt19937 random(5);
  int decoded = 0, refused = 0;
  const DecodeOptions limits{1 << 22, 4096, 50, 1 << 24};
  for (const Fixture& f : fixtures()) {
    const Bytes bytes = golden::image_bytes(f.name);
    for (int i = 0; i < 100; ++i) {
      Bytes damaged = bytes;
      for (int k = 0; k < 1 + i % 4; ++k)
        damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      error_of(damaged, limits).empty() ? ++decoded : ++refused;
    }
  }
  EXPECT_GT(decoded, 100);
  EXPECT_GT(refused, 100);
}

TEST(Image, RejectsHugeSizesByHeader) {
  EXPECT_TRUE(contains(error_of(jpeg_of_size("420.jpg", 65500, 65500)), "65500 x 65500 pixels"));
  EXPECT_TRUE(contains(error_of(jpeg_of_size("420.jpg", 13000, 13000)), "cut short"));
  EXPECT_NE(error_of(jpeg_of_size("420.jpg", 65535, 10)), "");
  EXPECT_NE(error_of(jpeg_of_size("420.jpg", 0, 10)), "");
  EXPECT_TRUE(contains(error_of(png_of(65500, 65500, Bytes(100))), "65500 x 65500 pixels"));
  EXPECT_TRUE(contains(error_of(png_of((1u << 31) - 1, 1, Bytes(100))), "at most 65500"));
  EXPECT_TRUE(contains(error_of(png_of(10000, 10000, Bytes(100))), "cut short"));
  EXPECT_NE(error_of(png_of(1u << 31, 1, Bytes(100))), "");
  EXPECT_NE(error_of(png_of(0, 5, Bytes(100))), "");
  Bytes bmp = golden::image_bytes("24bit.bmp");
  put_big_endian(bmp, 18, 0xDCFF0000, 4);  // 65500, little-endian
  put_big_endian(bmp, 22, 0xDCFF0000, 4);
  EXPECT_TRUE(contains(error_of(bmp), "65500 x 65500 pixels"));
  put_big_endian(bmp, 22, 0x00000080, 4);  // the most negative height
  EXPECT_NE(error_of(bmp), "");
}

TEST(Image, LimitsCanBeTightened) {
  const Bytes bytes = golden::image_bytes("progressive.jpg");  // 70 x 45
  EXPECT_EQ(error_of(bytes, {.max_pixels = 70 * 45}), "");
  EXPECT_TRUE(contains(error_of(bytes, {.max_pixels = 70 * 45 - 1}), "3149"));
  EXPECT_TRUE(contains(error_of(bytes, {.max_dimension = 69}), "at most 69"));
  EXPECT_TRUE(contains(error_of(bytes, {.max_scans = 3}), "more than 3 scans"));
  // libjpeg always allows itself a few rows, so this needs a taller image.
  const Bytes tall = jpeg_of_size("progressive.jpg", 70, 400);
  EXPECT_TRUE(contains(error_of(tall, {.max_memory = 1000}), "1000 bytes"));
}

TEST(Image, CompressionBombsStayWithinMemory) {
  const DecodeOptions little{.max_memory = 100'000};
  EXPECT_EQ(error_of(png_of(4, 4, Bytes(20)), little), "");
  EXPECT_EQ(error_of(png_of(4, 4, Bytes(64 << 20)), little), "");  // more rows than needed
  Bytes texts = png_of(4, 4, Bytes(20));
  Bytes text(4 + (1 << 20));  // the key "k", then a text without end
  text[0] = std::byte{'k'};
  Bytes chunk;
  for (int i = 0; i < 50; ++i) append_chunk(chunk, "tEXt", text);
  texts.insert(texts.end() - 12, chunk.begin(), chunk.end());
  EXPECT_EQ(error_of(texts, little), "");
  EXPECT_TRUE(contains(error_of(png_of(4, 4, Bytes(20)), {.max_memory = 1000}), "1000 bytes"));
}

TEST(Image, DetectsDamagedPngByChecksum) {
  Bytes bytes = golden::image_bytes("rgb8.png");
  const std::size_t at = find(bytes, "IDAT") + 20;
  bytes[at] ^= std::byte{1};
  EXPECT_TRUE(contains(error_of(bytes), "checksum"));
}

TEST(Image, RejectsOtherFileTypes) {
  EXPECT_TRUE(contains(error_of({}), "empty"));
  EXPECT_TRUE(
      contains(error_of(Bytes(100)), "not JPEG, PNG, WebP, GIF, BMP, PNM, TGA, PSD, HDR or PIC"));
  EXPECT_THROW(read_image_info(Bytes(3), "x"), DataError);
}

class FileTest : public testing::Test {
 protected:
  std::string error_of(const std::string& path, std::int64_t max_bytes = 1000) {
    try {
      read_file(path, max_bytes);
    } catch (const DataError& error) {
      EXPECT_TRUE(contains(error.what(), path));
      return error.what();
    }
    return "";
  }

  const test::TempFolder folder_;
};

TEST_F(FileTest, ReadsOrExplainsFailure) {
  const std::string path = folder_.write("file", "hello");
  EXPECT_EQ(read_file(path).size(), 5u);
  EXPECT_EQ(read_file(path)[4], static_cast<std::byte>('o'));
  EXPECT_EQ(error_of(path, 5), "");
  EXPECT_TRUE(contains(error_of(path, 4), "5 bytes, more than the 4"));
  EXPECT_TRUE(contains(error_of(folder_.path() / "absent"), "No such file"));
  EXPECT_TRUE(contains(error_of(folder_.path()), "not a regular file"));
  const std::string pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains(error_of(pipe), "not a regular file"));
}

}  // namespace
}  // namespace dtn
