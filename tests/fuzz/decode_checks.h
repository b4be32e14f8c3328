// Decodes hostile image files in every way, for the fuzz targets of images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "dtn/io/image.h"

namespace dtn::fuzz {

inline constexpr DecodeOptions kOptions{1 << 20, 4096, 20, 1 << 24};

// Decodes a region, at a scale if the file has one, and the whole image. Checks their sizes.
// `choice` picks the colour mode, the scale, and whether the image is turned upright.
inline void check_decoding(std::span<const std::byte> bytes, std::uint32_t choice) {
  static const std::string name = "fuzz";
  static Image image;  // reused, as in a worker
  const auto mode = static_cast<ColorMode>(choice % 3);
  DecodeOptions options = kOptions;
  options.upright = choice / 24 % 2 == 1;
  const ImageInfo info = read_image_info(bytes, name, options);
  const ImageRegion middle{info.width / 3, info.height / 3, info.width - info.width / 3,
                           info.height - info.height / 3};
  const int eighths = info.scalable ? 1 + static_cast<int>(choice / 3 % 8) : 8;
  decode_image_scaled(bytes, name, middle, eighths, image, options, mode);
  const ImageRegion part = scaled_region(middle, eighths);
  if (image.width != part.x1 - part.x0 || image.height != part.y1 - part.y0) std::abort();
  decode_image_into(bytes, name, image, options, mode);
  if (image.width != info.width || image.height != info.height) std::abort();
}

}  // namespace dtn::fuzz
