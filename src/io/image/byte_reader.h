// Reads the numbers of an image file from its beginning to its end. Private to dtn_io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/image/image_codecs.h"

namespace dtn::codec {

// The file is untrusted: a read past its end fails with "the file is cut short".
class ByteReader {
 public:
  explicit ByteReader(const Job& job) : job_(job) {}

  std::size_t position() const { return at_; }
  std::size_t left() const { return job_.bytes.size() - at_; }

  // Returns the next `size` bytes and passes them.
  std::span<const std::uint8_t> take(std::size_t size) {
    if (size > left()) fail(job_.name, "the file is cut short");
    const auto* file = reinterpret_cast<const std::uint8_t*>(job_.bytes.data());
    at_ += size;
    return {file + at_ - size, size};
  }
  void skip(std::size_t size) { take(size); }

  // Unsigned numbers of 1, 2 or 4 bytes, in little-endian or big-endian order.
  std::uint8_t u8() { return take(1)[0]; }
  int u16_little() {
    const auto bytes = take(2);
    return bytes[0] | bytes[1] << 8;
  }
  int u16_big() {
    const auto bytes = take(2);
    return bytes[0] << 8 | bytes[1];
  }
  std::uint32_t u32_big() {
    const auto high = static_cast<std::uint32_t>(u16_big());
    return high << 16 | static_cast<std::uint32_t>(u16_big());
  }

 private:
  const Job& job_;
  std::size_t at_ = 0;
};

}  // namespace dtn::codec
