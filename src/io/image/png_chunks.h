// Chunks of PNG files, for the encoders of this folder.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dtn {

inline void put_big_endian(std::vector<std::byte>& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<std::byte>(value >> shift));
}

// Appends a chunk: length, type, content, CRC of type and content (PNG specification, section 5.3).
inline void put_chunk(std::vector<std::byte>& out, std::string_view type,
                      const std::vector<std::byte>& content) {
  put_big_endian(out, static_cast<std::uint32_t>(content.size()));
  const std::size_t begin = out.size();
  for (char c : type) out.push_back(static_cast<std::byte>(c));
  out.insert(out.end(), content.begin(), content.end());
  const auto* from = reinterpret_cast<const Bytef*>(out.data() + begin);
  put_big_endian(out, static_cast<std::uint32_t>(crc32_z(0, from, out.size() - begin)));
}

// Writes signature and header. Colour types: 0 grey, 2 RGB, 3 palette.
inline void begin_png(int width, int height, int color_type, std::vector<std::byte>& out) {
  std::vector<std::byte> header;
  put_big_endian(header, static_cast<std::uint32_t>(width));
  put_big_endian(header, static_cast<std::uint32_t>(height));
  for (int value : {8, color_type, 0, 0, 0}) header.push_back(static_cast<std::byte>(value));
  out.clear();
  for (char c : std::string_view("\x89PNG\r\n\x1A\n")) out.push_back(static_cast<std::byte>(c));
  put_chunk(out, "IHDR", header);
}

}  // namespace dtn
