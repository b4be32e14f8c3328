// Functions shared by the image operations. Private to dtn_data.
#pragma once

#include <cstdint>

#include "dtn/core/check.h"
#include "dtn/io/image.h"

namespace dtn::image_ops {

inline std::int64_t pixel_count(const Image& image) {
  return static_cast<std::int64_t>(image.width) * image.height;
}
inline std::int64_t byte_count(const Image& image) { return pixel_count(image) * image.channels; }

inline void check_image(const Image& image) {
  DTN_CHECK(image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3) &&
                image.pixels.size() == static_cast<std::size_t>(byte_count(image)),
            "not an image: ", image.width, " x ", image.height, " x ", image.channels, " with ",
            image.pixels.size(), " bytes");
}

// Gives `out` the shape of `image`. Its pixels are still to be written.
inline void shape_like(const Image& image, Image& out) {
  out.width = image.width;
  out.height = image.height;
  out.channels = image.channels;
  out.pixels.resize(image.pixels.size());
}

}  // namespace dtn::image_ops
