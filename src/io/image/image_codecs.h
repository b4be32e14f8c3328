// Declarations shared by the image decoders. Private to dtn_io.
#pragma once

#include <string>

#include "dtn/io/image.h"

namespace dtn::codec {

using Bytes = std::span<const std::byte>;

// One image to decode: the region, or the whole image if there is none.
struct Job {
  Bytes bytes;
  const std::string& name;
  const DecodeOptions& options;
  ColorMode mode = ColorMode::kRgb;
  const ImageRegion* region = nullptr;
  int eighths = 8;  // JPEG only: decode at eighths/8 of the size
};

[[noreturn]] void fail(const std::string& name, const std::string& reason);

// Refuses an image that needs more memory than the limits allow.
[[noreturn]] void fail_for_memory(const Job& job);

// Refuses sizes beyond the limits. Called with the header's numbers, before pixels are allocated.
void check_size(const Job& job, std::int64_t width, std::int64_t height);

// Returns the region of the job, or the whole image. Checks that the region lies inside the image.
ImageRegion wanted_region(const Job& job, int width, int height);

// Warns of 16-bit grey that is clipped at 255, once in a process.
void warn_of_clipping(const Job& job);

// Sizes `out` for `region`.
void shape_image(Image& out, const ImageRegion& region, int channels);

inline int output_channels(ColorMode mode, int stored) {
  return mode == ColorMode::kRgb ? 3 : mode == ColorMode::kGray ? 1 : stored;
}

// Converts n pixels.
void row_rgb_to_gray(const std::uint8_t* in, std::uint8_t* out, std::int64_t n);
void row_gray_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::int64_t n);
// CMYK as Adobe stores it: 255 is no ink.
void row_cmyk_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::int64_t n);

// Writes `count` pixels of 1 or 3 samples each into a row of `out`, from column `left` on. Converts
// them to the channels of `out`.
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
ImageInfo gif_info(const Job& job);
void gif_decode(const Job& job, Image& out);
ImageInfo psd_info(const Job& job);
void psd_decode(const Job& job, Image& out);
ImageInfo pic_info(const Job& job);
void pic_decode(const Job& job, Image& out);
ImageInfo hdr_info(const Job& job);
void hdr_decode(const Job& job, Image& out);

// True for a file with a valid TGA header. A TGA has no signature at its beginning.
bool is_tga(Bytes file);
ImageInfo tga_info(const Job& job);
void tga_decode(const Job& job, Image& out);

}  // namespace dtn::codec
