// The dropout mask of attention's weights (attention_dropout.h) for a block of rows of scores: one
// bit per score, or no mask.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_dropout.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/cpu/philox_lanes.h"
#include "kernels/pointwise/drop_threshold.h"

namespace dtn::DTN_ISA {

struct NoDropout {
  static constexpr bool kActive = false;
  static constexpr int kept() { return 1; }
};

template <class A>
class DropoutMask {
 public:
  static constexpr bool kActive = true;

  // The mask of one head of a sample, for blocks of at most `rows` rows.
  DropoutMask(Scratch::Scope& scratch, const AttentionDropout& dropout, std::int64_t sample,
              std::int64_t heads, std::int64_t head, std::int64_t rows)
      : key_(key_at_step(dropout.key, dropout.step)),
        group_(attention_drop_group(dropout.row(sample), heads, head, 0, 0)),
        threshold_(drop_threshold(dropout.p)),
        kept_(static_cast<A>(dropout.kept())),
        bits_(scratch.take<std::uint16_t>(round_up(rows, 4) * kWords)) {}

  A kept() const { return kept_; }

  // Generates the mask of `rows` queries from first_row on, a multiple of 4, and of `keys` keys
  // from first_key on.
  void draw(std::int64_t first_row, std::int64_t rows, std::int64_t first_key, std::int64_t keys) {
    for (std::int64_t row = 0; row < rows; row += 4) {
      const std::uint64_t group = group_ + (static_cast<std::uint64_t>(first_row + row) / 4 << 20) +
                                  static_cast<std::uint64_t>(first_key);
      for (std::int64_t word = 0; word < divide_up(keys, 16); ++word) {
        std::uint32_t bits[4] = {};
        for (int k = 0; k < 16; k += kPhiloxGroups) {
          VecU64 random[4];
          philox_lanes(key_, group + static_cast<std::uint64_t>(16 * word + k), random);
          for (int r = 0; r < 4; ++r) bits[r] |= kept_lanes(random[r]) << k;
        }
        for (int r = 0; r < 4; ++r) {
          bits_[(row + r) * kWords + word] = static_cast<std::uint16_t>(bits[r]);
        }
      }
    }
  }

  // Returns v in the lanes whose weights are kept, else 0, for one row of the block and the keys of
  // the chunk from `column` on.
  Vec<A> keep(Vec<A> v, std::int64_t row, std::int64_t column) const {
    const unsigned bits = static_cast<unsigned>(bits_[row * kWords + column / 16]) >> column % 16;
#if defined(DTN_ISA_avx512)
    if constexpr (std::is_same_v<A, float>) {
      return (VecF)_mm512_maskz_mov_ps(static_cast<__mmask16>(bits), (__m512)v);
    } else {
      return (Vec<double>)_mm512_maskz_mov_pd(static_cast<__mmask8>(bits), (__m512d)v);
    }
#else
    using Lane = std::conditional_t<std::is_same_v<A, float>, std::uint32_t, std::uint64_t>;
    Vec<Lane> lane;
    for (int i = 0; i < kLanes<A>; ++i) lane[i] = Lane{1} << i;
    return (broadcast<Lane>(bits) & lane) != Vec<Lane>{} ? v : Vec<A>{};
#endif
  }

 private:
  static constexpr std::int64_t kWords = kScoreLd / 16;  // 16-key words per row

  // One bit per lane: 1 if its word is kept.
  std::uint32_t kept_lanes(VecU64 words) const {
    const auto kept = ((words & 0xffffffffu) >> 8) >= threshold_;
#if defined(DTN_ISA_avx512)
    return _mm512_movepi64_mask((__m512i)kept);
#elif defined(DTN_ISA_avx2)
    return static_cast<std::uint32_t>(_mm256_movemask_pd((__m256d)kept));
#else
    std::uint32_t bits = 0;
    for (int i = 0; i < kPhiloxGroups; ++i) bits |= (kept[i] ? 1u : 0u) << i;
    return bits;
#endif
  }

  PhiloxKey key_;
  std::uint64_t group_, threshold_;
  A kept_;
  std::uint16_t* bits_;  // [rows, kWords]
};

}  // namespace dtn::DTN_ISA
