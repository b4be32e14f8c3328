// What the image decoders share. Private to dtn_io.
#pragma once

#include <string>

#include "dtn/io/image.h"

namespace dtn::codec {

using Bytes = std::span<const std::byte>;

// One image to decode. Without a region the whole of it.
struct Job {
  Bytes bytes;
  const std::string& name;
  const DecodeLimits& limits;
  ColorMode mode = ColorMode::kRgb;
  const ImageRegion* region = nullptr;
  int eighths = 8;  // JPEG alone: what is decoded is the image at eighths/8 of its size
};

[[noreturn]] void fail(const std::string& name, const std::string& reason);

// Refuses sizes beyond the limits; called with the header's numbers, before pixels are allocated.
void check_size(const Job& job, std::int64_t width, std::int64_t height);

// The region of the job, or the whole image; checks that it lies inside.
ImageRegion wanted_region(const Job& job, int width, int height);

// Sizes `out` for `region`.
void shape_image(Image& out, const ImageRegion& region, int channels);

inline int output_channels(ColorMode mode, int stored) {
  return mode == ColorMode::kRgb ? 3 : mode == ColorMode::kGray ? 1 : stored;
}

// n pixels from one kind to another.
void row_rgb_to_gray(const std::uint8_t* in, std::uint8_t* out, int n);
void row_gray_to_rgb(const std::uint8_t* in, std::uint8_t* out, int n);

// Writes `count` pixels of 1 or 3 samples each into a row of `out`, from column `left` on, as what
// its channels say.
void store_pixels(const std::uint8_t* pixels, int samples, int count, int left, int row,
                  Image& out);

ImageInfo jpeg_info(const Job& job);
void jpeg_decode(const Job& job, Image& out);
ImageInfo png_info(const Job& job);
void png_decode(const Job& job, Image& out);
ImageInfo webp_info(const Job& job);
void webp_decode(const Job& job, Image& out);
ImageInfo pnm_info(const Job& job);
void pnm_decode(const Job& job, Image& out);
ImageInfo bmp_info(const Job& job);
void bmp_decode(const Job& job, Image& out);

}  // namespace dtn::codec
