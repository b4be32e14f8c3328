// SHA-256 (FIPS 180-4), for checksums that other programs and servers name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtn {

// Hashes bytes that arrive in pieces.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  // Returns the digest of all bytes so far, as 64 lower-case hexadecimal digits. More may be added.
  std::string hex() const;

 private:
  static constexpr std::size_t kBlock = 64;  // bytes

  void add_block(const std::byte* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> pending_{};  // the begun block
  std::uint64_t bytes_ = 0;                  // in all
};

}  // namespace dtn
