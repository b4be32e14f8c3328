// Decodes the first frame of a GIF. As in Pillow, transparency is dropped; where the frame does not
// cover the canvas there is the transparent colour, or colour 0 without one; a frame beyond the
// canvas enlarges it; and a palette of the greys 0, 1, 2, ... makes a grey image. Unlike Pillow,
// such a palette of the frame counts even if the file has another palette for all frames.
//
// stb_image decodes a plain GIF: the codes of the frame as one opaque grey image of its size. The
// pixels are then indices, and an alpha of 0 shows the pixels for which the file has no codes.
#include <algorithm>
#include <vector>

#include "dtn/core/check.h"
#include "io/image/byte_reader.h"
#include "io/image/stb.h"

namespace dtn::codec {
namespace {

constexpr int kExtension = 0x21, kImageDescriptor = 0x2C, kTrailer = 0x3B;
constexpr int kGraphicControl = 0xF9;
constexpr int kHasPalette = 0x80, kInterlaced = 0x40;

struct Gif {
  int width = 0, height = 0;  // of the canvas
  ImageRegion frame;          // place of the frame on the canvas
  Palette palette = grey_palette();
  bool grey = true;
  int fill = 0;  // index of the canvas
  bool interlaced = false;
};

// Passes data blocks up to the empty one that ends them.
void skip_blocks(ByteReader& in) {
  while (const std::uint8_t size = in.u8()) in.skip(size);
}

std::size_t palette_entries(int flags) { return std::size_t{2} << (flags & 7); }

void read_gif_palette(ByteReader& in, int flags, Gif& gif) {
  const auto colors = in.take(3 * palette_entries(flags));
  gif.palette = grey_palette();
  gif.grey = true;
  for (std::size_t i = 0; i < colors.size(); ++i)
    gif.grey = gif.grey && gif.palette[i / 3][i % 3] == colors[i];
  if (gif.grey) return;
  gif.palette = {};
  for (std::size_t i = 0; i < colors.size(); ++i) gif.palette[i / 3][i % 3] = colors[i];
}

void read_extension(ByteReader& in, Gif& gif) {
  if (in.u8() == kGraphicControl) {
    const auto block = in.take(in.u8());
    if (block.empty()) return;
    constexpr int kTransparent = 1;
    if (block.size() >= 4 && (block[0] & kTransparent) != 0) gif.fill = block[3];
  }
  skip_blocks(in);
}

void read_image_descriptor(const Job& job, ByteReader& in, Gif& gif) {
  const int x = in.u16_little(), y = in.u16_little();
  const int width = in.u16_little(), height = in.u16_little();
  if (width == 0 || height == 0) fail(job.name, "damaged GIF: its first frame is empty");
  gif.frame = {x, y, x + width, y + height};
  gif.width = std::max(gif.width, gif.frame.x1);
  gif.height = std::max(gif.height, gif.frame.y1);
  check_size(job, gif.width, gif.height);
  const int flags = in.u8();
  gif.interlaced = (flags & kInterlaced) != 0;
  if ((flags & kHasPalette) != 0) read_gif_palette(in, flags, gif);
}

// Reads up to the codes of the first frame.
Gif read_gif_header(const Job& job, ByteReader& in) {
  in.skip(6);  // the signature
  Gif gif;
  gif.width = in.u16_little();
  gif.height = in.u16_little();
  const int flags = in.u8();
  in.skip(2);  // background and aspect ratio
  if ((flags & kHasPalette) != 0) read_gif_palette(in, flags, gif);
  for (;;) {
    switch (in.u8()) {
      case 0: break;  // some writers leave zeros between blocks
      case kExtension: read_extension(in, gif); break;
      case kImageDescriptor: read_image_descriptor(job, in, gif); return gif;
      case kTrailer: fail(job.name, "the GIF has no image");
      default: fail(job.name, "damaged GIF: a block of unknown kind");
    }
  }
}

// Passes the frames after the first one. A file may end between blocks, or with other data.
void check_rest(ByteReader& in) {
  while (in.left() > 0) {
    const int kind = in.u8();
    if (kind == kExtension) {
      in.skip(1);
    } else if (kind == kImageDescriptor) {
      in.skip(8);
      const int flags = in.u8();
      if ((flags & kHasPalette) != 0) in.skip(3 * palette_entries(flags));
      in.skip(1);
    } else {
      if (kind != 0) return;
      continue;
    }
    skip_blocks(in);
  }
}

// Returns the codes of the frame: their first size in bits, data blocks, and the empty block.
std::span<const std::uint8_t> take_codes(const Job& job, ByteReader& in, std::int64_t pixels) {
  ByteReader ahead = in;
  const int bits = ahead.u8();
  if (bits < 2 || bits > 8)
    fail(job.name, cat("damaged GIF: its colours have ", bits, " bits, not 2 to 8"));
  skip_blocks(ahead);
  const auto codes = in.take(ahead.position() - in.position());
  check_rest(in);
  // A code has at least 3 bits, and stands for at most 4096 pixels.
  constexpr std::int64_t kMaxPixelsOfByte = std::int64_t{3} * 4096;
  if (pixels / kMaxPixelsOfByte > static_cast<std::int64_t>(codes.size()))
    fail(job.name, "the file is cut short: its first frame has too few codes");
  return codes;
}

void append_u16(std::vector<std::uint8_t>& file, int value) {
  file.push_back(static_cast<std::uint8_t>(value & 255));
  file.push_back(static_cast<std::uint8_t>(value >> 8));
}

std::vector<std::uint8_t> plain_gif(int width, int height, bool interlaced,
                                    std::span<const std::uint8_t> codes) {
  std::vector<std::uint8_t> file = {'G', 'I', 'F', '8', '7', 'a'};
  append_u16(file, width);
  append_u16(file, height);
  file.insert(file.end(), {0xF7, 0, 0});  // 256 colours of 8 bits, background, aspect ratio
  for (const auto& grey : grey_palette()) file.insert(file.end(), grey.begin(), grey.end());
  file.insert(file.end(), {kImageDescriptor, 0, 0, 0, 0});
  append_u16(file, width);
  append_u16(file, height);
  file.push_back(interlaced ? kInterlaced : 0);
  file.insert(file.end(), codes.begin(), codes.end());
  file.push_back(kTrailer);
  return file;
}

}  // namespace

ImageInfo gif_info(const Job& job) {
  ByteReader in(job);
  const Gif gif = read_gif_header(job, in);
  return {gif.width, gif.height, gif.grey ? 1 : 3};
}

void gif_decode(const Job& job, Image& out) {
  ByteReader in(job);
  const Gif gif = read_gif_header(job, in);
  const int width = gif.frame.x1 - gif.frame.x0, height = gif.frame.y1 - gif.frame.y0;
  const std::int64_t pixels = std::int64_t{width} * height;
  const auto codes = take_codes(job, in, pixels);
  const StbSamples rgba =
      stb_decode(job, plain_gif(width, height, gif.interlaced, codes), width, height, 4);
  for (std::size_t i = 0; i < static_cast<std::size_t>(pixels); ++i)
    if (rgba[4 * i + 3] == 0)
      fail(job.name, "the file is cut short: its first frame has too few codes");
  const int samples = gif.grey ? 1 : 3;
  store_image(job, gif.width, gif.height, samples, out, [&](int x, int y, std::uint8_t* to) {
    const ImageRegion& f = gif.frame;
    const bool in_frame = f.x0 <= x && x < f.x1 && f.y0 <= y && y < f.y1;
    const int index = in_frame ? rgba[sample_at(x - f.x0, y - f.y0, width, 4)] : gif.fill;
    std::copy_n(gif.palette[static_cast<std::size_t>(index)].begin(), samples, to);
  });
}

}  // namespace dtn::codec
