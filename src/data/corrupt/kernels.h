// Inner loops of the corruptions. All instruction sets give the same bits: the loops use integers,
// and floating-point sums in the order written here, without fused multiply-adds and without
// functions of the C library. Private to dtn_data.
#pragma once

#include <cstdint>

#include "dtn/core/philox.h"

namespace dtn::corrupt {

inline constexpr int kBlockGroups = 16;  // groups of four words
inline constexpr int kBlockWords = 64;

// Sum of weighted arrays, in the order of k:
//     out[i] = sum over k < count of weights[k] taps[k][i]
struct WeightedSum {
  const double* const* taps = nullptr;
  const double* weights = nullptr;
  int count = 0;
};
// Sum of weighted arrays and pairs of arrays, in the order of k:
//     out[i] = weights[0] middle[i]
//              + sum over k < pairs of weights[k + 1] (before[k][i] + after[k][i])
template <class T>
struct PairedSum {
  const T* middle = nullptr;
  const T *const *before = nullptr, *const *after = nullptr;
  const T* weights = nullptr;
  int pairs = 0;
};

// Four rows r of a matrix product, in the order of k. weights [4, stride]; in and out: rows of n.
//     out[r, i] = sum over k < count of weights[r, k] in[k, i]
struct FourRows {
  const float* weights = nullptr;
  int stride = 0, count = 0;
  const float* in = nullptr;
};

// Change of a pixel in hue, saturation and value:
//     saturation = clamp(scale saturation + shift)
//     value = min(value + add, 1)
struct HsvChange {
  double scale = 1, shift = 0, add = 0;
};

// The loops for one instruction set. `out` overlaps no input. A double or float that becomes a byte
// is clamped to [0, 255], and its fraction is dropped.
struct Kernels {
  // Writes word w of group first + 16 b + l to words[64 b + 16 w + l].
  void (*philox)(const PhiloxKey& key, std::uint64_t first, std::int64_t blocks,
                 std::uint32_t* words);
  // Converts two words to two numbers of the normal distribution (Box and Muller), 64 per block.
  void (*normals)(const std::uint32_t* words, std::int64_t blocks, float* out);
  // add_noise: out = in + scale noise. add_relative_noise: out = in + in scale noise.
  void (*add_noise)(const std::uint8_t* in, const float* noise, float scale, std::int64_t n,
                    std::uint8_t* out);
  void (*add_relative_noise)(const std::uint8_t* in, const float* noise, float scale,
                             std::int64_t n, std::uint8_t* out);
  // Writes 0 if the word is below `half`, otherwise 255 if it is below `all`, otherwise the input.
  void (*impulses)(const std::uint8_t* in, const std::uint32_t* words, std::uint32_t half,
                   std::uint32_t all, std::int64_t n, std::uint8_t* out);
  void (*sum64)(const WeightedSum& sum, std::int64_t n, double* out);
  void (*product32)(const FourRows& rows, std::int64_t n, float* out);
  void (*paired64)(const PairedSum<double>& sum, std::int64_t n, double* out);
  // Adds to `out`.
  void (*add_paired32)(const PairedSum<float>& sum, std::int64_t n, float* out);
  // out = a + share (b - a)
  void (*between)(const float* a, const float* b, float share, std::int64_t n, float* out);
  // out[i] += row[at[i]] + share[i] (row[at[i] + step] - row[at[i]])
  void (*add_between)(const float* row, const std::int32_t* at, const float* share, int step,
                      std::int64_t n, float* out);
  // out = 255 clamp(in, 0, 1)
  void (*to_bytes)(const double* in, std::int64_t n, std::uint8_t* out);
  // out = a x + b y
  void (*blend)(const std::uint8_t* x, const std::uint8_t* y, double a, double b, std::int64_t n,
                std::uint8_t* out);
  // Changes whole pixels, in and out [n, 3].
  void (*change_hsv)(const std::uint8_t* in, const HsvChange& change, std::int64_t n,
                     std::uint8_t* out);
};

// Returns the loops for the best instruction set that limit_instruction_set() allows.
const Kernels& kernels();

}  // namespace dtn::corrupt
