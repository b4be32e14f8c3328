// Reads the files that make_pillow_fixtures.py wrote.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/io/image.h"
#include "io/file.h"

namespace dtn::golden {

inline std::string path(const std::string& name) { return DTN_TESTS_FOLDER "/golden/data/" + name; }

inline std::vector<std::byte> image_bytes(const std::string& name) {
  return read_file(path("images/" + name));
}

// Same as pixel_values() of the script.
inline Image procedural_image(std::uint32_t seed, int width, int height, int channels = 3) {
  Image image{width, height, channels, {}};
  std::uint32_t index = 0;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c, ++index) {
        std::uint32_t h = index * 2654435761u + seed * 40503u;
        h ^= h >> 13;
        h *= 0x5BD1E995u;
        h ^= h >> 15;
        const std::uint32_t value =
            seed % 3 == 0   ? h
            : seed % 3 == 1 ? (h & 1) * 255
                            : static_cast<std::uint32_t>(3 * x + 5 * y + 50 * c) + (h & 15);
        image.pixels.push_back(static_cast<std::uint8_t>(value));
      }
  return image;
}

template <class T>
std::uint32_t crc(const std::vector<T>& values) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(values.data()), values.size() * sizeof(T)));
}
inline std::uint32_t crc(const Image& image) { return crc(image.pixels); }

inline std::ifstream open_table(const std::string& name) {
  std::ifstream in(path(name));
  EXPECT_TRUE(in.good()) << path(name);
  return in;
}

inline Interpolation filter_named(const std::string& name) {
  return name == "bicubic" ? Interpolation::kBicubic : Interpolation::kBilinear;
}

}  // namespace dtn::golden
