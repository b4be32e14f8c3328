#include "io/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dtn {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kWord = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kWord>;

// tables[k][b] is the checksum of byte b followed by k zero bytes, so a word takes eight lookups
// (M. Kounavis and F. Berry, "Novel table lookup-based algorithms for high-performance CRC
// generation", 2008).
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < kWord; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t shorter = tables[k - 1][b];
      tables[k][b] = shorter >> 8 ^ tables[0][shorter & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint64_t load_word(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, kWord);
  return word;
}

#if defined(__x86_64__)
// The instruction has a latency of three cycles but can start one word per cycle. Three lanes of
// this many bytes are therefore computed side by side.
constexpr std::size_t kLane = 4096;

// Advances a state by kLane zero bytes. The map is linear, so one table per byte of the state is
// enough.
struct LaneShift {
  std::uint32_t tables[4][256] = {};

  LaneShift() {
    const std::array<std::uint32_t, 256>& step = kTables[0];
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      std::uint32_t state = 1u << bit;
      for (std::size_t i = 0; i < kLane; ++i) state = step[state & 0xff] ^ state >> 8;
      for (std::uint32_t b = 0; b < 256; ++b) {
        if (b >> bit % 8 & 1) tables[bit / 8][b] ^= state;
      }
    }
  }
  std::uint64_t operator()(std::uint64_t state) const {
    return tables[0][state & 0xff] ^ tables[1][state >> 8 & 0xff] ^ tables[2][state >> 16 & 0xff] ^
           tables[3][state >> 24 & 0xff];
  }
};

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(std::span<const std::byte> bytes,
                                                     std::uint32_t crc) {
  static const LaneShift shift;
  std::uint64_t state = ~crc;
  for (; bytes.size() >= 3 * kLane; bytes = bytes.subspan(3 * kLane)) {
    const std::byte* at = bytes.data();
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kLane; i += kWord) {
      state = _mm_crc32_u64(state, load_word(at + i));
      second = _mm_crc32_u64(second, load_word(at + i + kLane));
      third = _mm_crc32_u64(third, load_word(at + i + 2 * kLane));
    }
    state = shift(shift(state) ^ second) ^ third;
  }
  for (; bytes.size() >= kWord; bytes = bytes.subspan(kWord)) {
    state = _mm_crc32_u64(state, load_word(bytes.data()));
  }
  auto narrow = static_cast<std::uint32_t>(state);
  for (std::byte b : bytes) narrow = _mm_crc32_u8(narrow, static_cast<unsigned char>(b));
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t detail::crc32c_portable(std::span<const std::byte> bytes, std::uint32_t crc) {
  crc = ~crc;
  for (; bytes.size() >= kWord; bytes = bytes.subspan(kWord)) {
    const std::uint64_t word = load_word(bytes.data()) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < kWord; ++k) crc ^= kTables[kWord - 1 - k][word >> 8 * k & 0xff];
  }
  for (std::byte b : bytes)
    crc = kTables[0][(crc ^ static_cast<std::uint32_t>(b)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc32c_sse42(bytes, crc);
#endif
  return detail::crc32c_portable(bytes, crc);
}

}  // namespace dtn
