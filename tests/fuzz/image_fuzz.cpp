// Decoding of hostile image files: errors only, and memory within the limits.
#include <cstddef>
#include <cstdint>

#include "dtn/core/check.h"
#include "dtn/io/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dtn::DecodeLimits limits{1 << 20, 4096, 20, 1 << 24};
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  static const std::string name = "fuzz";
  try {
    const dtn::ImageInfo info = dtn::read_image_info(bytes, name, limits);
    const auto mode = static_cast<dtn::ColorMode>(size % 3);
    dtn::Image image;
    const dtn::ImageRegion middle{info.width / 3, info.height / 3, info.width - info.width / 3,
                                  info.height - info.height / 3};
    dtn::decode_image_region(bytes, name, middle, image, limits, mode);
    dtn::decode_image_into(bytes, name, image, limits, mode);
  } catch (const dtn::DataError&) {
  }
  return 0;
}
