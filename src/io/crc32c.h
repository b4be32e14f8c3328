// CRC-32C (Castagnoli; RFC 3720, appendix B.4), by the processor's instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtn {

// Of `before` and `bytes` together, where `crc` is the checksum of `before`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

namespace detail {
// The same without the instruction.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t crc);
}  // namespace detail

}  // namespace dtn
