// GIF, TGA, PSD, HDR and PIC: values from the definitions of the formats, and hostile files. The
// files of image_test.cpp compare the pixels with those of Pillow.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "dtn/core/check.h"
#include "golden/data/fixtures.h"
#include "io/cursor.h"

namespace dtn {
namespace {

using Pixels = std::vector<std::uint8_t>;
constexpr const char* kName = "folder/file.img";

std::string decode_error(const std::string& file, const DecodeOptions& limits = {}) {
  try {
    decode_image(as_bytes_of(file), kName, limits);
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find(kName), std::string::npos);
    return error.what();
  }
  return "";
}

testing::AssertionResult fails_with(const std::string& part, const std::string& file,
                                    const DecodeOptions& limits = {}) {
  const std::string error = decode_error(file, limits);
  if (error.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << error << "\" does not contain \"" << part << "\"";
}

Pixels rgb_of(const std::string& file) { return decode_image(as_bytes_of(file), kName).pixels; }

std::string golden_file(const std::string& name) {
  const std::vector<std::byte> bytes = golden::image_bytes(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string bytes_text_of(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}
std::string little(int value) { return bytes_text_of({value & 255, value >> 8}); }
std::string big(int value) { return bytes_text_of({value >> 8, value & 255}); }

// Codes of 2-bit indices, 3 bits each: the table is cleared before each index and stays empty.
std::string gif_codes(const Pixels& indices) {
  std::string out;
  unsigned value = 0, used = 0;
  const auto add = [&](unsigned code) {
    value |= code << used;
    for (used += 3; used >= 8; used -= 8, value >>= 8) out += static_cast<char>(value & 255);
  };
  constexpr unsigned kClear = 4, kEnd = 5;
  for (const std::uint8_t index : indices) {
    add(kClear);
    add(index);
  }
  add(kEnd);
  out += static_cast<char>(value);
  return out;
}

constexpr Pixels::value_type kColors[4][3] = {{10, 20, 30}, {40, 50, 60}, {70, 80, 90}, {1, 2, 3}};

struct GifFrame {
  int x = 0, y = 0, width = 2, height = 2;
  Pixels indices = {0, 1, 2, 3};
  bool interlaced = false;

  std::string text() const {
    const std::string codes = gif_codes(indices);
    return "," + little(x) + little(y) + little(width) + little(height) +
           bytes_text_of({interlaced ? 0x40 : 0, 2, static_cast<int>(codes.size())}) + codes +
           bytes_text_of({0});
  }
};

std::string gif(int width, int height, const std::string& blocks, const char* version = "GIF89a") {
  std::string file = version + little(width) + little(height) + bytes_text_of({0x81, 2, 0});
  for (const auto& color : kColors) file += bytes_text_of({color[0], color[1], color[2]});
  return file + blocks;
}

Pixels colors_of(const Pixels& indices) {
  Pixels pixels;
  for (const std::uint8_t index : indices)
    pixels.insert(pixels.end(), std::begin(kColors[index]), std::end(kColors[index]));
  return pixels;
}

// "!\xF9" opens a graphic control extension, with the transparent index 3.
const std::string kTransparent3 = bytes_text_of({'!', 0xF9, 4, 1, 0, 0, 3, 0});

TEST(Gif, DrawsFirstFrame) {
  for (const char* version : {"GIF87a", "GIF89a"})
    EXPECT_EQ(rgb_of(gif(2, 2, GifFrame().text() + ";", version)), colors_of({0, 1, 2, 3}));
  // Transparent pixels keep their colour. Only the first frame counts.
  GifFrame second;
  second.indices = {1, 1, 1, 1};
  EXPECT_EQ(rgb_of(gif(2, 2, kTransparent3 + GifFrame().text() + second.text() + ";")),
            colors_of({0, 1, 2, 3}));
}

TEST(Gif, OrdersInterlacedRows) {
  GifFrame frame{
      .width = 1, .height = 9, .indices = {0, 1, 2, 3, 0, 1, 2, 3, 0}, .interlaced = true};
  // The rows in order of storage: 0 8, 4, 2 6, 1 3 5 7.
  EXPECT_EQ(rgb_of(gif(1, 9, frame.text())), colors_of({0, 1, 3, 2, 2, 3, 0, 0, 1}));
}

TEST(Gif, FillsCanvasAroundFrame) {
  GifFrame frame{.x = 1, .y = 1, .width = 1, .height = 1, .indices = {2}};
  EXPECT_EQ(rgb_of(gif(3, 2, frame.text())), colors_of({0, 0, 0, 0, 2, 0}));
  EXPECT_EQ(rgb_of(gif(3, 2, kTransparent3 + frame.text())), colors_of({3, 3, 3, 3, 2, 3}));
  // A frame that leaves the canvas enlarges it.
  EXPECT_EQ(rgb_of(gif(1, 1, frame.text())), colors_of({0, 0, 0, 2}));
}

TEST(Gif, RejectsDamage) {
  const std::string frame = GifFrame().text();
  EXPECT_TRUE(fails_with("no image", gif(2, 2, ";")));
  EXPECT_TRUE(fails_with("unknown kind", gif(2, 2, "x" + frame)));
  GifFrame empty{.width = 0, .indices = {}};
  EXPECT_TRUE(fails_with("first frame is empty", gif(2, 2, empty.text())));
  GifFrame few{.indices = {0, 1, 2}};
  EXPECT_TRUE(fails_with("cut short", gif(2, 2, few.text())));
  GifFrame far{.x = 65535, .y = 65535};
  EXPECT_TRUE(fails_with("at most 65500", gif(2, 2, far.text())));
  GifFrame wide{.width = 9000, .height = 9000};
  EXPECT_TRUE(fails_with("too few codes", gif(2, 2, wide.text())));
  // The second frame of an animation is not decoded, but has to be complete.
  const std::string two = gif(2, 2, frame + frame);
  EXPECT_EQ(decode_error(two), "");
  EXPECT_TRUE(fails_with("cut short", two.substr(0, two.size() - 1)));
  EXPECT_TRUE(fails_with("cut short", two.substr(0, two.size() - frame.size() + 3)));
}

// stb_image has no room for more than 8192 codes after a clear code.
TEST(Gif, RefusesTableThatStaysFull) {
  std::string bits;
  const auto add = [&bits](unsigned code, int size) {
    for (int i = 0; i < size; ++i) bits += (code >> i & 1) != 0 ? '1' : '0';
  };
  constexpr int kPixels = 9000;
  int next = 258, size = 9;
  add(256, size);
  for (int i = 0; i < kPixels; ++i) {
    add(7, size);
    if (i > 0) ++next;
    if (next == 1 << size && size < 12) ++size;
  }
  add(257, size);
  std::string codes;
  for (std::size_t at = 0; at < bits.size(); at += 8) {
    int byte = 0;
    for (std::size_t i = 0; i < 8 && at + i < bits.size(); ++i) byte |= (bits[at + i] - '0') << i;
    codes += static_cast<char>(byte);
  }
  std::string blocks =
      "," + little(0) + little(0) + little(kPixels) + little(1) + bytes_text_of({0, 8});
  for (std::size_t at = 0; at < codes.size(); at += 255) {
    const std::string block = codes.substr(at, 255);
    blocks += static_cast<char>(block.size()) + block;
  }
  EXPECT_TRUE(fails_with("too many codes", gif(kPixels, 1, blocks + bytes_text_of({0, ';'}))));
}

std::string tga_header(int type, int bits, int width, int height, int descriptor = 0x20) {
  return bytes_text_of({0, 0, type, 0, 0, 0, 0, 0, 0, 0, 0, 0}) + little(width) + little(height) +
         bytes_text_of({bits, descriptor});
}
const std::string kTgaFooter = std::string(8, '\0') + "TRUEVISION-XFILE." + std::string(1, '\0');

TEST(Tga, DecodesEachDepth) {
  const std::string one = tga_header(3, 8, 1, 1) + "\x7B";
  EXPECT_EQ(rgb_of(one), (Pixels{123, 123, 123}));
  EXPECT_EQ(rgb_of(one + kTgaFooter), (Pixels{123, 123, 123}));
  // Red 31, green 16, blue 1, of 31.
  for (const int bits : {15, 16})
    EXPECT_EQ(rgb_of(tga_header(2, bits, 1, 1) + little(31 << 10 | 16 << 5 | 1)),
              (Pixels{255, 131, 8}));
  EXPECT_EQ(rgb_of(tga_header(2, 24, 1, 1) + bytes_text_of({1, 2, 3})), (Pixels{3, 2, 1}));
  EXPECT_EQ(rgb_of(tga_header(2, 32, 1, 1, 0x28) + bytes_text_of({1, 2, 3, 0})), (Pixels{3, 2, 1}));
  // A packet may go beyond the end of a row: three times 5, then 6.
  const std::string runs = tga_header(11, 8, 2, 2) + bytes_text_of({0x82, 5, 0, 6});
  EXPECT_EQ(rgb_of(runs), (Pixels{5, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6}));
}

TEST(Tga, OrdersRowsAndColumns) {
  const std::string pixels = bytes_text_of({1, 2, 3, 4});
  const auto gray = [&](int descriptor) {
    const std::string file = tga_header(3, 8, 2, 2, descriptor) + pixels;
    return decode_image(as_bytes_of(file), kName, {}, ColorMode::kAsStored).pixels;
  };
  EXPECT_EQ(gray(0x20), (Pixels{1, 2, 3, 4}));
  EXPECT_EQ(gray(0x00), (Pixels{3, 4, 1, 2}));
  EXPECT_EQ(gray(0x30), (Pixels{2, 1, 4, 3}));
  EXPECT_EQ(gray(0x10), (Pixels{4, 3, 2, 1}));
}

TEST(Tga, IsKnownByItsHeaderAlone) {
  const std::string good = tga_header(2, 24, 2, 2) + std::string(12, 'x');
  ASSERT_EQ(decode_error(good), "");
  const auto changed = [&](std::size_t at, int value) {
    std::string file = good;
    file[at] = static_cast<char>(value);
    return file;
  };
  // Map type, image type, map fields, no width, depth, descriptor.
  for (const auto& [at, value] : std::initializer_list<std::pair<std::size_t, int>>{{1, 1},
                                                                                    {1, 2},
                                                                                    {2, 0},
                                                                                    {2, 1},
                                                                                    {2, 4},
                                                                                    {2, 18},
                                                                                    {3, 1},
                                                                                    {5, 1},
                                                                                    {7, 3},
                                                                                    {12, 0},
                                                                                    {16, 8},
                                                                                    {16, 23},
                                                                                    {17, 0x80},
                                                                                    {17, 0x0F}})
    EXPECT_TRUE(fails_with("it is not JPEG", changed(at, value))) << at << " " << value;
  EXPECT_TRUE(fails_with("but no TGA footer", good + "tail"));
  EXPECT_TRUE(fails_with("but no TGA footer", good + kTgaFooter.substr(1)));
  EXPECT_TRUE(fails_with("beyond the last pixel", tga_header(11, 8, 2, 2) + "\x84z"));
}

TEST(Tga, LeavesOtherFilesAlone) {
  EXPECT_TRUE(fails_with("it is not JPEG", "A text of some length, which is not an image.\n"));
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string file(40, '\0');
    for (char& c : file) c = static_cast<char>(random());
    const char* format = image_format(as_bytes_of(file));
    ASSERT_NE(format ? std::string(format) : "none", "tga");
  }
}

std::string psd(int mode, int channels, int depth, int width, int height, int compression,
                const std::string& data) {
  return "8BPS" + big(1) + std::string(6, '\0') + big(channels) + big(0) + big(height) + big(0) +
         big(width) + big(depth) + big(mode) + std::string(12, '\0') + big(compression) + data;
}

TEST(Psd, CutsSixteenBitsToHighByte) {
  // Two pixels of red 0x1234 0x5678, green 0x9ABC 0xDEF0, blue 0x0102 0x0304.
  const std::string red = bytes_text_of({0x12, 0x34, 0x56, 0x78});
  const std::string green = bytes_text_of({0x9A, 0xBC, 0xDE, 0xF0});
  const std::string blue = bytes_text_of({1, 2, 3, 4});
  const Pixels expected = {0x12, 0x9A, 1, 0x56, 0xDE, 3};
  EXPECT_EQ(rgb_of(psd(3, 3, 16, 2, 1, 0, red + green + blue)), expected);
  const std::string lengths = big(5) + big(5) + big(5), packet = bytes_text_of({3});
  EXPECT_EQ(rgb_of(psd(3, 3, 16, 2, 1, 1, lengths + packet + red + packet + green + packet + blue)),
            expected);
}

TEST(Psd, DropsAlphaOfRunLengths) {
  // A run of two bytes for each of red, green, blue and a half transparent alpha.
  std::string data = big(2) + big(2) + big(2) + big(2);
  for (const int value : {10, 20, 30, 128}) data += bytes_text_of({255, value});
  EXPECT_EQ(rgb_of(psd(3, 4, 8, 2, 1, 1, data)), (Pixels{10, 20, 30, 10, 20, 30}));
}

TEST(Psd, RejectsWhatItDoesNotRead) {
  const std::string pixel(8, 'x');
  for (const int mode : {0, 5, 7, 9, 300})
    EXPECT_TRUE(fails_with("colour mode", psd(mode, 4, 8, 1, 1, 0, pixel))) << mode;
  for (const int depth : {0, 1, 7, 32, 65535})
    EXPECT_TRUE(fails_with("bits is not supported", psd(3, 3, depth, 1, 1, 0, pixel))) << depth;
  for (const int channels : {0, 2, 57, 65535})
    EXPECT_TRUE(fails_with("channels in colour mode", psd(3, channels, 8, 1, 1, 0, pixel)));
  EXPECT_TRUE(fails_with("ZIP", psd(3, 3, 8, 1, 1, 2, pixel)));
  EXPECT_TRUE(fails_with("palette has 0 bytes", psd(2, 1, 8, 1, 1, 0, pixel)));
  std::string large = psd(3, 3, 8, 1, 1, 0, pixel);
  large[5] = 2;
  EXPECT_TRUE(fails_with("PSB", large));
  // A row that unpacks to one byte too many, and one too few.
  for (const int head : {254, 0})
    EXPECT_TRUE(
        fails_with("wrong length", psd(1, 1, 8, 2, 1, 1, big(2) + bytes_text_of({head, 9}))));
  EXPECT_TRUE(fails_with("wrong length", psd(1, 1, 8, 2, 1, 1, big(2) + bytes_text_of({1, 9}))));
}

std::string pic(int width, int height, const std::string& packets_and_pixels) {
  std::string file = bytes_text_of({0x53, 0x80, 0xF6, 0x34}) + std::string(84, '\0') + "PICT";
  return file + big(width) + big(height) + std::string(8, '\0') + packets_and_pixels;
}

TEST(Pic, DecodesPackets) {
  const std::string rgb = bytes_text_of({0, 8, 0, 0xE0}), rgb_runs = bytes_text_of({0, 8, 2, 0xE0});
  EXPECT_EQ(rgb_of(pic(2, 1, rgb + "abcdef")), (Pixels{'a', 'b', 'c', 'd', 'e', 'f'}));
  // A run of two, a pixel in plain, a long run of one.
  EXPECT_EQ(
      rgb_of(pic(4, 1, rgb_runs + bytes_text_of({129, 1, 2, 3, 0, 4, 5, 6, 128, 0, 1, 7, 8, 9}))),
      (Pixels{1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  // Red alone: green and blue are 255.
  EXPECT_EQ(rgb_of(pic(1, 1, bytes_text_of({0, 8, 0, 0x80, 7}))), (Pixels{7, 255, 255}));
}

TEST(Pic, RejectsDamage) {
  for (const auto& packet : {bytes_text_of({0, 16, 0, 0xE0}), bytes_text_of({0, 8, 3, 0xE0}),
                             bytes_text_of({0, 8, 0, 0}), bytes_text_of({0, 8, 0, 0x0F})})
    EXPECT_TRUE(fails_with("not supported", pic(1, 1, packet + "abcdef")));
  std::string many;
  for (int i = 0; i < 12; ++i) many += bytes_text_of({1, 8, 0, 0x80});
  EXPECT_TRUE(fails_with("not supported", pic(1, 1, many)));
  const std::string runs = bytes_text_of({0, 8, 1, 0x80}), mixed = bytes_text_of({0, 8, 2, 0x80});
  EXPECT_TRUE(fails_with("wrong length", pic(2, 1, runs + bytes_text_of({0, 1}))));
  EXPECT_TRUE(fails_with("wrong length", pic(2, 1, runs + bytes_text_of({3, 1}))));
  EXPECT_TRUE(fails_with("wrong length", pic(2, 1, mixed + bytes_text_of({128, 0, 0, 1}))));
  std::string unmarked = pic(1, 1, mixed);
  unmarked[88] = 'p';
  EXPECT_TRUE(fails_with("header is damaged", unmarked));
}

std::string hdr(const std::string& size, const std::string& pixels,
                const std::string& format = "FORMAT=32-bit_rle_rgbe\n") {
  return "#?RADIANCE\n" + format + "\n" + size + "\n" + pixels;
}

TEST(Hdr, EncodesByGamma) {
  // Values 0.5, 1 and 4; the least that is not black; exponent 0, which is 0.
  const std::string pixels = bytes_text_of(
      {128, 128, 128, 128, 128, 128, 128, 129, 128, 128, 128, 131, 1, 0, 0, 120, 9, 9, 9, 0});
  EXPECT_EQ(rgb_of(hdr("-Y 1 +X 5", pixels)),
            (Pixels{186, 186, 186, 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0}));
}

TEST(Hdr, RejectsDamage) {
  const std::string pixel = bytes_text_of({128, 1, 1, 128});
  ASSERT_EQ(decode_error(hdr("-Y 1 +X 1", pixel)), "");
  EXPECT_TRUE(fails_with("another format", hdr("-Y 1 +X 1", pixel, "FORMAT=32-bit_rle_xyze\n")));
  for (const char* size : {"+Y 1 +X 1", "-Y 1 -X 1", "+X 1 -Y 1", "-Y 1 +X 1 ", "-Y +X 1", "",
                           "-Y -1 +X 1", "-Y 99999999999999999999 +X 1"})
    EXPECT_TRUE(fails_with("another order", hdr(size, pixel))) << size;
  EXPECT_TRUE(fails_with("0 x 1", hdr("-Y 1 +X 0", pixel)));
  EXPECT_TRUE(fails_with("cut short", hdr("-Y 1 +X 2", pixel)));
  EXPECT_TRUE(fails_with("too long", hdr(std::string(2000, 'x'), pixel)));
  EXPECT_TRUE(fails_with("old kind", hdr("-Y 1 +X 2", pixel + bytes_text_of({1, 1, 1, 1}))));
  const std::string row = bytes_text_of({2, 2, 0, 8}), run = bytes_text_of({136, 1});
  ASSERT_EQ(decode_error(hdr("-Y 1 +X 8", row + run + run + run + run)), "");
  EXPECT_TRUE(fails_with("cut short", hdr("-Y 1 +X 8", row + run + run + run)));
  // stb_image would read a run of no pixels forever.
  EXPECT_TRUE(fails_with("run has a wrong", hdr("-Y 1 +X 8", row + std::string(99, '\0'))));
  EXPECT_TRUE(fails_with("run has a wrong", hdr("-Y 1 +X 8", row + bytes_text_of({137, 1}))));
  EXPECT_TRUE(fails_with("row has a wrong", hdr("-Y 1 +X 9", row + run + run + run + run)));
}

TEST(StbFormats, RejectEveryTruncation) {
  for (const char* name : {"palette2.gif", "part_transparent.gif", "local.gif", "gray8.tga",
                           "rgb5_runs.tga", "map24.tga", "rgb8.psd", "rgb8_runs.psd", "indexed.psd",
                           "plain.pic", "mixed_alpha.pic", "runs.hdr", "flat.hdr"}) {
    std::string file = golden_file(name);
    ASSERT_EQ(decode_error(file), "") << name;
    if (file.back() == ';') file.pop_back();  // the end mark of a GIF may be missing
    for (std::size_t size = 0; size < file.size(); ++size)
      ASSERT_NE(decode_error(file.substr(0, size)), "") << name << " cut to " << size;
  }
}

TEST(StbFormats, RefuseHugeSizesByHeader) {
  constexpr int kMost = 65500;
  const std::string hdr_size = "-Y 65500 +X 65500", none;
  GifFrame frame{.width = kMost, .height = kMost};
  for (const std::string& file :
       {gif(kMost, kMost, frame.text()), tga_header(2, 24, kMost, kMost), pic(kMost, kMost, none),
        psd(3, 3, 8, kMost, kMost, 0, none), hdr(hdr_size, none)}) {
    EXPECT_TRUE(fails_with("65500 x 65500 pixels", file));
    EXPECT_THROW(read_image_info(as_bytes_of(file), kName), DataError);
  }
  const std::string tall = "8BPS" + big(1) + std::string(6, '\0') + big(3) + big(0xFFFF) +
                           big(0xFFFF) + big(0) + big(1) + big(8) + big(3) + std::string(14, '\0');
  EXPECT_TRUE(fails_with("4294967295", tall));
}

TEST(StbFormats, StayWithinMemory) {
  for (const char* name : {"clears.gif", "rgba8_runs.tga", "cmyk.psd", "mixed.pic", "runs.hdr"}) {
    const std::string file = golden_file(name);
    EXPECT_TRUE(fails_with("needs more than 500 bytes", file, {.max_memory = 500})) << name;
    EXPECT_EQ(decode_error(file, {.max_memory = 100'000}), "") << name;
  }
}

TEST(StbFormats, InfoNeedsHeaderOnly) {
  const auto expect_info = [](const std::string& file, std::size_t header, int channels) {
    const ImageInfo info = read_image_info(as_bytes_of(file).first(header), kName);
    EXPECT_EQ(info.width, 3);
    EXPECT_EQ(info.height, 2);
    EXPECT_EQ(info.channels, channels);
    EXPECT_FALSE(info.scalable);
    EXPECT_THROW(decode_image(as_bytes_of(file).first(header), kName), DataError);
  };
  GifFrame frame{.width = 3};
  expect_info(gif(3, 2, frame.text()), 35, 3);
  expect_info(tga_header(3, 8, 3, 2), 18, 1);
  expect_info(psd(1, 1, 8, 3, 2, 0, ""), 26, 1);
  expect_info(pic(3, 2, ""), 104, 3);
  const std::string picture = hdr("-Y 2 +X 3", "");
  expect_info(picture, picture.size(), 3);
}

}  // namespace
}  // namespace dtn
