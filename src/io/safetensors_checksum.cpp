#include "io/safetensors_checksum.h"

#include <zlib.h>

#include <algorithm>
#include <numeric>

#include "dtn/core/parallel.h"

namespace dtn::safetensors {

std::vector<std::uint32_t> crc32_pieces(
    const std::vector<std::size_t>& sizes,
    const std::function<const std::byte*(std::size_t, std::size_t, std::size_t)>& piece) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  struct Piece {
    std::size_t range, begin, bytes;
    uLong crc = 0;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (std::size_t begin = 0; begin < sizes[i]; begin += kPieceBytes) {
      pieces.push_back({i, begin, std::min(kPieceBytes, sizes[i] - begin)});
    }
  }
  auto run = [&](std::int64_t k) {
    Piece& p = pieces[static_cast<std::size_t>(k)];
    const std::byte* bytes = piece(p.range, p.begin, p.bytes);
    if (bytes) p.crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes), p.bytes);
  };
  auto count = static_cast<std::int64_t>(pieces.size());
  if (std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) <= kPieceBytes) {
    for (std::int64_t k = 0; k < count; ++k) run(k);  // too little work to wake the threads
  } else {
    parallel_for(count, run);
  }
  std::vector<std::uint32_t> result(sizes.size(), 0);
  for (const Piece& p : pieces) {
    result[p.range] = static_cast<std::uint32_t>(
        p.begin == 0 ? p.crc
                     : crc32_combine(result[p.range], p.crc, static_cast<z_off_t>(p.bytes)));
  }
  return result;
}

}  // namespace dtn::safetensors
