// CRC-32C (Castagnoli; RFC 3720, appendix B.4), with the processor's instruction if it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtn {

// Returns the checksum of `bytes` appended to data whose checksum is `crc`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

namespace detail {
// The same, without the processor's instruction.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t crc);
}  // namespace detail

}  // namespace dtn
