// A 64-bit hash to tell contents apart, fast enough for gigabytes. It is not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/format.h"

namespace dtn {

class Fingerprint {
 public:
  // Each call adds one item: the length is hashed with the bytes.
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) mix(word(bytes.data(), 8));
    if (!bytes.empty()) mix(word(bytes.data(), bytes.size()));
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  void add(std::int64_t number) { mix(static_cast<std::uint64_t>(number)); }

  std::int64_t number() const { return static_cast<std::int64_t>(state_); }
  // 16 hexadecimal digits.
  std::string text() const { return format("%016llx", static_cast<unsigned long long>(state_)); }

 private:
  static std::uint64_t word(const std::byte* bytes, std::size_t n) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, n);
    return value;
  }
  // FNV-1a on words, with the high bits folded down. Each step is a bijection of the state.
  void mix(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x100000001b3;
    state_ ^= state_ >> 32;
  }

  std::uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace dtn
