// Decodes TGA: colour-mapped with 8-bit indices, grey of 8 bits (or 16 with alpha), and RGB of 15,
// 16, 24 and 32 bits, plain or run-length encoded. Alpha is dropped.
//
// stb_image decodes a plain TGA, whose rows begin at the top left and whose indices are given as
// grey. Colour maps and the order of rows and columns are handled here, as in Pillow: stb_image
// takes the first index of a map for a number of bytes, and does not mirror.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "dtn/core/check.h"
#include "io/image/byte_reader.h"
#include "io/image/stb.h"

namespace dtn::codec {
namespace {

constexpr std::size_t kHeaderSize = 18, kFooterSize = 26;
constexpr std::string_view kFooterMark("TRUEVISION-XFILE.\0", 18);
enum TgaKind { kMapped = 1, kRgb = 2, kGrey = 3 };

struct Tga {
  int width = 0, height = 0;
  int kind = kRgb;
  bool run_lengths = false;
  int bits = 0;  // per pixel
  bool mirrored = false, top_down = false;
  std::size_t id_size = 0;
  int map_begin = 0, map_size = 0, map_bits = 0;  // first index, entries, bits per entry

  int samples() const { return kind == kGrey ? 1 : 3; }
  std::size_t pixel_bytes() const { return static_cast<std::size_t>(bits + 7) / 8; }
  std::size_t map_bytes() const {
    return static_cast<std::size_t>(map_size) * static_cast<std::size_t>((map_bits + 7) / 8);
  }
  std::size_t pixels_at() const { return kHeaderSize + id_size + map_bytes(); }
};

bool is_color_depth(int bits) { return bits == 15 || bits == 16 || bits == 24 || bits == 32; }

// Returns false if the header contradicts itself, or has fields that no TGA of a known kind has.
bool parse_header(const std::uint8_t* header, Tga& tga) {
  const auto u16 = [header](int at) { return header[at] | header[at + 1] << 8; };
  const int map_type = header[1], type = header[2], descriptor = header[17];
  tga.id_size = header[0];
  tga.kind = type & ~8;
  tga.run_lengths = (type & 8) != 0;
  tga.map_begin = u16(3);
  tga.map_size = u16(5);
  tga.map_bits = header[7];
  tga.width = u16(12);
  tga.height = u16(14);
  tga.bits = header[16];
  tga.mirrored = (descriptor & 0x10) != 0;
  tga.top_down = (descriptor & 0x20) != 0;
  constexpr int kAlphaBits = 0x0F, kInterleaved = 0xC0;
  const bool has_no_map = map_type == 0 && tga.map_begin == 0 && tga.map_size == 0 &&
                          (tga.map_bits == 0 || is_color_depth(tga.map_bits));
  const bool is_mapped = tga.kind == kMapped && tga.bits == 8 && map_type == 1 &&
                         tga.map_size > 0 && tga.map_begin + tga.map_size <= 256 &&
                         is_color_depth(tga.map_bits);
  const bool is_rgb = tga.kind == kRgb && has_no_map && is_color_depth(tga.bits);
  const bool is_grey = tga.kind == kGrey && has_no_map && (tga.bits == 8 || tga.bits == 16);
  return (is_mapped || is_rgb || is_grey) && tga.width > 0 && tga.height > 0 &&
         (descriptor & kAlphaBits) <= 8 && (descriptor & kInterleaved) == 0;
}

Tga read_tga_header(const Job& job) {
  Tga tga;
  parse_header(reinterpret_cast<const std::uint8_t*>(job.bytes.data()), tga);
  check_size(job, tga.width, tga.height);
  return tga;
}

Palette read_color_map(const Job& job, const Tga& tga) {
  ByteReader in(job);
  in.skip(kHeaderSize + tga.id_size);
  Palette palette{};
  for (int i = tga.map_begin; i < tga.map_begin + tga.map_size; ++i) {
    std::array<std::uint8_t, 3> color;
    if (tga.map_bits <= 16) {
      const int value = in.u16_little();
      for (int c = 0; c < 3; ++c)
        color[static_cast<std::size_t>(c)] =
            static_cast<std::uint8_t>((value >> (10 - 5 * c) & 31) * 255 / 31);
    } else {
      const auto bgr = in.take(static_cast<std::size_t>(tga.map_bits / 8));
      color = {bgr[2], bgr[1], bgr[0]};
    }
    palette[static_cast<std::size_t>(i)] = color;
  }
  return palette;
}

// Passes the packets of all pixels.
void skip_packets(const Job& job, const Tga& tga, ByteReader& in) {
  constexpr int kRun = 128;
  std::int64_t left = std::int64_t{tga.width} * tga.height;
  while (left > 0) {
    const int head = in.u8();
    const int count = 1 + (head & ~kRun);
    if (count > left) fail(job.name, "damaged TGA: a packet goes beyond the last pixel");
    in.skip(tga.pixel_bytes() * static_cast<std::size_t>((head & kRun) != 0 ? 1 : count));
    left -= count;
  }
}

// Returns the bytes of the pixels. Only a file with a footer may have data after them: a file
// without one has exactly the size of its image.
std::span<const std::uint8_t> take_pixels(const Job& job, const Tga& tga) {
  ByteReader in(job);
  in.skip(tga.pixels_at());
  ByteReader ahead = in;
  if (tga.run_lengths) {
    skip_packets(job, tga, ahead);
  } else {
    ahead.skip(tga.pixel_bytes() * static_cast<std::size_t>(tga.width) *
               static_cast<std::size_t>(tga.height));
  }
  const auto pixels = in.take(ahead.position() - in.position());
  const std::size_t rest = in.left();
  if (rest > 0) {
    const auto tail = in.take(rest);
    const bool has_footer =
        rest >= kFooterSize && std::equal(kFooterMark.rbegin(), kFooterMark.rend(), tail.rbegin());
    if (!has_footer)
      fail(job.name,
           cat("the file is cut short: ", rest, " bytes follow the pixels, but no TGA footer"));
  }
  return pixels;
}

std::vector<std::uint8_t> plain_tga(const Tga& tga, std::span<const std::uint8_t> pixels) {
  constexpr std::uint8_t kTopDown = 0x20;
  const int kind = tga.kind == kMapped ? kGrey : tga.kind;
  std::vector<std::uint8_t> file(kHeaderSize);
  file.reserve(kHeaderSize + pixels.size());
  file[2] = static_cast<std::uint8_t>(tga.run_lengths ? kind | 8 : kind);
  file[12] = static_cast<std::uint8_t>(tga.width & 255);
  file[13] = static_cast<std::uint8_t>(tga.width >> 8);
  file[14] = static_cast<std::uint8_t>(tga.height & 255);
  file[15] = static_cast<std::uint8_t>(tga.height >> 8);
  file[16] = static_cast<std::uint8_t>(tga.bits);
  file[17] = kTopDown;
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

}  // namespace

bool is_tga(Bytes file) {
  Tga tga;
  return file.size() >= kHeaderSize &&
         parse_header(reinterpret_cast<const std::uint8_t*>(file.data()), tga);
}

ImageInfo tga_info(const Job& job) {
  const Tga tga = read_tga_header(job);
  return {tga.width, tga.height, tga.samples()};
}

void tga_decode(const Job& job, Image& out) {
  const Tga tga = read_tga_header(job);
  const auto pixels = take_pixels(job, tga);
  const Palette palette = tga.kind == kMapped ? read_color_map(job, tga) : Palette{};
  const int stored = tga.kind == kRgb ? 3 : 1;
  const StbSamples values = stb_decode(job, plain_tga(tga, pixels), tga.width, tga.height, stored);
  const int samples = tga.samples();
  store_image(job, tga.width, tga.height, samples, out, [&](int x, int y, std::uint8_t* to) {
    const int column = tga.mirrored ? tga.width - 1 - x : x;
    const int row = tga.top_down ? y : tga.height - 1 - y;
    const std::uint8_t* pixel = &values[sample_at(column, row, tga.width, stored)];
    if (tga.kind == kMapped) pixel = palette[*pixel].data();
    std::copy_n(pixel, samples, to);
  });
}

}  // namespace dtn::codec
