// CRC-32 of many byte ranges at once. Long ranges are also split between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace dtn::safetensors {

// sizes[i] is the length of range i; bytes. piece(i, begin, bytes) makes bytes [begin, begin +
// bytes) of range i available and returns their address, or null if no checksum is wanted. It is
// called once per piece, from several threads.
std::vector<std::uint32_t> crc32_pieces(
    const std::vector<std::size_t>& sizes,
    const std::function<const std::byte*(std::size_t, std::size_t, std::size_t)>& piece);

}  // namespace dtn::safetensors
