// Decoding of JPEG, PNG, WebP, BMP and binary PNM into 8-bit pixels. A file is recognised by its content, not by its
// name. The pixels equal those of Pillow's `Image.open(f).convert(mode)` bit for bit: JPEG by the
// accurate integer DCT with smooth chroma upsampling, CMYK and YCCK taken as Adobe's inverted kind,
// 16-bit grey clipped at 255, other 16-bit samples cut to their high byte, alpha dropped, gamma,
// colour profiles and EXIF orientation ignored, the first frame of an animation (black where it
// leaves the canvas free).
//
// Files are not trusted: sizes are checked in the header before pixels are allocated, and whatever
// is wrong with a file is a DataError that names it. Stricter than Pillow: a file too short to hold
// the pixels it claims is refused at once, and a PNG's data must match their checksums. Compressed
// BMP and PNM in digits are not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtn {

struct Image {
  int width = 0, height = 0;
  int channels = 0;                  // 1 (grey) or 3 (RGB)
  std::vector<std::uint8_t> pixels;  // [height, width, channels], rows without padding
};

enum class ColorMode {
  kRgb,       // always 3 channels, grey is replicated
  kGray,      // always 1 channel, colour becomes ITU-R 601 luma as in Pillow's mode L
  kAsStored,  // 1 channel when the file is grey, else 3
};

// What a file may ask for. The defaults are Pillow's and libjpeg's own limits.
struct DecodeLimits {
  std::int64_t max_pixels = 178'956'970;
  int max_dimension = 65'500;           // of either side
  int max_scans = 500;                  // of a progressive JPEG; each scan costs a full pass
  std::int64_t max_memory = 1ll << 30;  // bytes a decoder may hold beside the pixels
};

struct ImageInfo {
  int width = 0, height = 0;
  int channels = 0;       // as kAsStored would give
  bool scalable = false;  // decode_image_scaled() can make it smaller: a JPEG
};

// Columns x0 .. x1-1 of rows y0 .. y1-1.
struct ImageRegion {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

// Reads the header alone. `name` is what errors call the file.
ImageInfo read_image_info(std::span<const std::byte> bytes, const std::string& name,
                          const DecodeLimits& limits = {});

Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const DecodeLimits& limits = {}, ColorMode mode = ColorMode::kRgb);

// The same into `out`, whose memory is reused.
void decode_image_into(std::span<const std::byte> bytes, const std::string& name, Image& out,
                       const DecodeLimits& limits = {}, ColorMode mode = ColorMode::kRgb);

// Decodes `region` alone; `out` has its size and equals that part of the whole image. It costs only
// what lies in and above the region (all of an interlaced PNG). Damage below it goes unnoticed in a
// JPEG or WebP; a file that is cut short is noticed all the same. The region must lie inside the
// image and not be empty.
void decode_image_region(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, Image& out, const DecodeLimits& limits = {},
                         ColorMode mode = ColorMode::kRgb);

// The pixels that `region` touches when its image is shrunk to eighths/8 of its size: pixel i then
// covers the pixels from 8 i / eighths to 8 (i + 1) / eighths.
ImageRegion scaled_region(const ImageRegion& region, int eighths);

// As decode_image_region(), but from the image at eighths/8 of its size (1 to 8, 8 being the size
// itself), which the transform of a JPEG yields for less work: `out` becomes scaled_region() of it.
// Below 8 the file must be scalable.
void decode_image_scaled(std::span<const std::byte> bytes, const std::string& name,
                         const ImageRegion& region, int eighths, Image& out,
                         const DecodeLimits& limits = {}, ColorMode mode = ColorMode::kRgb);

// The colour conversions decoding uses, for images that come from elsewhere. [H, W, 3] <-> [H, W,
// 1]
void rgb_to_gray(const Image& rgb, Image& gray);
void gray_to_rgb(const Image& gray, Image& rgb);

}  // namespace dtn
