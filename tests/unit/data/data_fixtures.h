// Small data sets on disk for the tests.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "dtn/core/check.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn::test {

using Bytes = std::vector<std::uint8_t>;

inline std::span<const std::byte> bytes_of(const Bytes& b) { return std::as_bytes(std::span(b)); }

inline void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out) throw Error("cannot write " + path.string());
}

inline Bytes gzipped(const Bytes& bytes) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&z, bytes.size()) + 64);
  z.next_in = const_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// An IDX file of unsigned bytes with the given header, which need not match the values.
inline Bytes idx_file(const std::vector<std::uint32_t>& dims, const Bytes& values, int type = 8) {
  Bytes out = {0, 0, static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(dims.size())};
  for (std::uint32_t d : dims) {
    for (int shift = 24; shift >= 0; shift -= 8)
      out.push_back(static_cast<std::uint8_t>(d >> shift));
  }
  out.insert(out.end(), values.begin(), values.end());
  return out;
}

// Pseudorandom bytes that depend on `seed`.
inline Bytes noise(std::size_t n, std::uint32_t seed) {
  Bytes out(n);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::uint8_t& b : out) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::uint8_t>(state >> 24);
  }
  return out;
}

// A 24-bit BMP of `rgb` [height, width, 3].
inline Bytes bmp_file(int width, int height, const Bytes& rgb) {
  std::size_t stride = (static_cast<std::size_t>(width) * 3 + 3) / 4 * 4;
  Bytes out(54 + stride * static_cast<std::size_t>(height), 0);
  auto put32 = [&](std::size_t at, std::uint32_t v) {
    for (std::size_t i = 0; i < 4; ++i) out[at + i] = static_cast<std::uint8_t>(v >> (8 * i));
  };
  out[0] = 'B';
  out[1] = 'M';
  put32(2, static_cast<std::uint32_t>(out.size()));
  put32(10, 54);
  put32(14, 40);
  put32(18, static_cast<std::uint32_t>(width));
  put32(22, static_cast<std::uint32_t>(height));
  out[26] = 1;
  out[28] = 24;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        std::size_t row = static_cast<std::size_t>(height - 1 - y);  // bottom up
        out[54 + row * stride + static_cast<std::size_t>(3 * x + 2 - c)] =
            rgb[static_cast<std::size_t>((y * width + x) * 3 + c)];
      }
    }
  }
  return out;
}

}  // namespace dtn::test
