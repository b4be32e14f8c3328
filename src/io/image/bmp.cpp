// Decodes uncompressed BMP: 1, 4 and 8 bits with a palette, and 16, 24 and 32 bits.
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>

#include "dtn/core/check.h"
#include "io/image/image_codecs.h"

namespace dtn::codec {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::uint32_t kNoCompression = 0, kBitFields = 3;

struct Bmp {
  std::int64_t width = 0, height = 0;
  bool top_down = false;
  int bits = 0;                           // per pixel
  std::size_t stride = 0, pixels_at = 0;  // bytes of a row, offset of the first
  // For 16 and 32 bits: shift and largest value of each of R, G, B.
  std::array<int, 3> shift{};
  std::array<std::uint32_t, 3> most{};
  std::array<std::uint8_t, 768> palette{};  // RGB of 256 colours
};

class Fields {
 public:
  explicit Fields(const Job& job) : job_(job) {}
  std::uint32_t u16(std::size_t at) const { return get(at, 2); }
  std::uint32_t u32(std::size_t at) const { return get(at, 4); }

 private:
  std::uint32_t get(std::size_t at, std::size_t size) const {
    if (at + size > job_.bytes.size()) fail(job_.name, "the file is cut short");
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= std::to_integer<std::uint32_t>(job_.bytes[at + i]) << (8 * i);
    return value;
  }
  const Job& job_;
};

// Returns true for the RGB colours (0, 0, 0), (1, 1, 1), (2, 2, 2), ...
bool is_grey_ramp(std::span<const std::uint8_t> colors) {
  for (std::size_t i = 0; i < colors.size(); ++i)
    if (colors[i] != i / 3) return false;
  return true;
}

void read_palette(const Job& job, const Fields& fields, std::size_t header, Bmp& bmp) {
  const std::size_t entry = header == 12 ? 3 : 4;
  std::size_t colors = header == 12 ? 0 : fields.u32(46);
  if (colors == 0) colors = std::size_t{1} << bmp.bits;
  if (colors > 256)
    fail(job.name, cat("its palette has ", colors, " colours; BMP allows at most 256"));
  const std::size_t at = kFileHeader + header;
  if (at + colors * entry > job.bytes.size()) fail(job.name, "the file is cut short");
  for (std::size_t i = 0; i < colors; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      bmp.palette[3 * i + c] = std::to_integer<std::uint8_t>(job.bytes[at + entry * i + 2 - c]);
  // An index beyond the palette is black, as in Pillow 13. But Pillow ignores an 8-bit palette
  // whose colours are the greys 0, 1, 2, ...: each pixel is then the grey of its index.
  const std::size_t given = 3 * colors;
  if (bmp.bits == 8 && colors > 2 && is_grey_ramp({bmp.palette.data(), given})) {
    for (std::size_t i = given; i < bmp.palette.size(); ++i)
      bmp.palette[i] = static_cast<std::uint8_t>(i / 3);
  }
}

void read_masks(const Job& job, const Fields& fields, std::uint32_t compression, Bmp& bmp) {
  std::array<std::uint32_t, 3> masks = bmp.bits == 16
                                           ? std::array<std::uint32_t, 3>{0x7C00, 0x3E0, 0x1F}
                                           : std::array<std::uint32_t, 3>{0xFF0000, 0xFF00, 0xFF};
  if (compression == kBitFields) {
    const std::array<std::uint32_t, 3> given{fields.u32(54), fields.u32(58), fields.u32(62)};
    if (given != std::array<std::uint32_t, 3>{0, 0, 0}) masks = given;
  }
  for (std::size_t c = 0; c < 3; ++c) {
    bmp.shift[c] = masks[c] == 0 ? 0 : __builtin_ctz(masks[c]);
    bmp.most[c] = masks[c] >> bmp.shift[c];
    const std::uint32_t most = bmp.most[c];
    if (most != 255 && !(bmp.bits == 16 && (most == 31 || most == 63)))
      fail(job.name,
           cat("colour mask ", masks[c], " is not supported; save it as 24-bit BMP or PNG"));
  }
}

Bmp read_bmp_header(const Job& job) {
  const Fields fields(job);
  const std::size_t header = fields.u32(14);
  if (header != 12 && header != 40 && header != 52 && header != 56 && header != 64 &&
      header != 108 && header != 124)
    fail(job.name, cat("a BMP header of ", header, " bytes is not supported"));
  Bmp bmp;
  std::uint32_t compression = kNoCompression;
  if (header == 12) {
    bmp.width = fields.u16(18);
    bmp.height = fields.u16(20);
    bmp.bits = static_cast<int>(fields.u16(24));
  } else {
    bmp.width = static_cast<std::int32_t>(fields.u32(18));
    bmp.height = static_cast<std::int32_t>(fields.u32(22));
    bmp.top_down = bmp.height < 0;
    bmp.height = std::abs(bmp.height);
    bmp.bits = static_cast<int>(fields.u16(28));
    compression = fields.u32(30);
  }
  check_size(job, bmp.width, bmp.height);
  const int bits = bmp.bits;
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
    fail(job.name, cat("BMP of ", bits, " bits per pixel is not supported"));
  if (compression != kNoCompression && !(compression == kBitFields && bits >= 16))
    fail(job.name, "compressed BMP is not supported; save it without compression or as PNG");
  bmp.stride = static_cast<std::size_t>((bmp.width * bits + 31) / 32 * 4);
  bmp.pixels_at = fields.u32(10);
  // The padding of the last row may be missing.
  const std::size_t needed = bmp.stride * static_cast<std::size_t>(bmp.height - 1) +
                             static_cast<std::size_t>((bmp.width * bits + 7) / 8);
  if (bmp.pixels_at > job.bytes.size() || job.bytes.size() - bmp.pixels_at < needed)
    fail(job.name, "the file is cut short");
  if (bits <= 8) read_palette(job, fields, header, bmp);
  if (bits == 16 || bits == 32) read_masks(job, fields, compression, bmp);
  return bmp;
}

void read_pixel(const Bmp& bmp, const std::uint8_t* row, int x, std::uint8_t* rgb) {
  if (bmp.bits <= 8) {
    const int bit = x * bmp.bits;
    const int index = row[bit / 8] >> (8 - bmp.bits - bit % 8) & ((1 << bmp.bits) - 1);
    std::memcpy(rgb, &bmp.palette[3 * static_cast<std::size_t>(index)], 3);
  } else if (bmp.bits == 24) {
    for (int c = 0; c < 3; ++c) rgb[c] = row[3 * x + 2 - c];
  } else {
    const int size = bmp.bits / 8;
    std::uint32_t value = 0;
    for (int i = 0; i < size; ++i)
      value |= static_cast<std::uint32_t>(row[size * x + i]) << (8 * i);
    for (std::size_t c = 0; c < 3; ++c)
      rgb[c] = static_cast<std::uint8_t>((value >> bmp.shift[c] & bmp.most[c]) * 255 / bmp.most[c]);
  }
}

}  // namespace

ImageInfo bmp_info(const Job& job) {
  const Bmp bmp = read_bmp_header(job);
  return {static_cast<int>(bmp.width), static_cast<int>(bmp.height), 3};
}

void bmp_decode(const Job& job, Image& out) {
  const Bmp bmp = read_bmp_header(job);
  const int width = static_cast<int>(bmp.width), height = static_cast<int>(bmp.height);
  const ImageRegion region = wanted_region(job, width, height);
  const int channels = output_channels(job.mode, 3);
  shape_image(out, region, channels);
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(job.bytes.data()) + bmp.pixels_at;
  std::uint8_t* to = out.pixels.data();
  for (int y = region.y0; y < region.y1; ++y) {
    const int stored = bmp.top_down ? y : height - 1 - y;
    const std::uint8_t* row = pixels + bmp.stride * static_cast<std::size_t>(stored);
    for (int x = region.x0; x < region.x1; ++x, to += channels) {
      std::uint8_t rgb[3];
      read_pixel(bmp, row, x, rgb);
      if (channels == 3) {
        std::memcpy(to, rgb, 3);
      } else {
        row_rgb_to_gray(rgb, to, 1);
      }
    }
  }
}

}  // namespace dtn::codec
