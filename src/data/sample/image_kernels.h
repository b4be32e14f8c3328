// Inner loops of the image operations. All instruction sets give the same bits: integers, and
// floating-point sums in the order written here, without fused multiply-adds. Private to dtn_data.
#pragma once

#include <cstdint>

namespace dtn::image_kernels {

// Source positions of the pixels of one row of an affine transform.
struct AffineRow {
  const std::uint8_t* pixels = nullptr;  // the source: [height, width, channels]
  int width = 0, height = 0, channels = 0;
  const std::int32_t *columns = nullptr, *rows = nullptr;  // first tap; may lie outside
  const double *dx = nullptr, *dy = nullptr;  // from the (taps / 2)th tap to the next, 0 .. 1
  bool between_columns = true, between_rows = true;  // false: all dx or all dy are 0
  int count = 0;
};

// The loops for one instruction set. `n` counts bytes, `pixels` counts pixels of three bytes.
struct Kernels {
  // p = p < threshold ? p : 255 - p, threshold 0 .. 255
  void (*solarize)(std::uint8_t* p, std::int64_t n, int threshold);
  // p = p & mask
  void (*mask)(std::uint8_t* p, std::int64_t n, int mask);
  // p = p < threshold ? min(p + addend, 255) : p, both 0 .. 255
  void (*add_below)(std::uint8_t* p, std::int64_t n, int threshold, int addend);
  // Smallest and largest value of the bytes i with i mod 3 = c, for any number of bytes. For an
  // image of one channel, the extremes are spread over the three c.
  void (*extremes)(const std::uint8_t* p, std::int64_t n, std::uint8_t low[3],
                   std::uint8_t high[3]);
  // p = clamp(plain + factor (p - plain)), truncated to an integer
  void (*blend_constant)(std::uint8_t* p, std::int64_t n, int plain, float factor);
  // The same, with each pixel's luma as `plain`.
  void (*blend_luma)(std::uint8_t* p, std::int64_t pixels, float factor);
  std::int64_t (*sum_luma)(const std::uint8_t* p, std::int64_t pixels);
  // Adds `turn` (0 .. 255), modulo 256, to the hue of each pixel in Pillow's mode HSV.
  void (*turn_hue)(std::uint8_t* p, std::int64_t pixels, int turn);
  // As blend_luma, with the mean of the nine pixels around each as `plain`; the middle one counts
  // five times. Neighbours are `step` bytes apart. The pixels to the left and right must exist.
  void (*blend_smooth)(const std::uint8_t* above, const std::uint8_t* row,
                       const std::uint8_t* below, std::int64_t n, int step, float factor,
                       std::uint8_t* out);
  // Weighted sum of taps, rounded; `out` overlaps no tap:
  //     out = (inner (taps[1] + ... + taps[count - 2]) + outer (taps[0] + taps[count - 1])) / 2^24
  void (*box)(const std::uint8_t* const* taps, int count, std::int64_t n, std::uint32_t inner,
              std::uint32_t outer, std::uint8_t* out);
  // out[i] = slope (i + 0.5) + a + b
  void (*line)(double slope, double a, double b, int count, double* out);
  // Splits positions of pixel centres into an index, `before` taps further left, and a fraction.
  // Returns true if any fraction is not 0.
  //     index = floor(at - 0.5) - before
  //     at = at - 0.5 - floor(at - 0.5)
  bool (*split)(double* at, int count, int before, std::int32_t* index);
  // Bicubic (four taps in each direction) or bilinear (two); taps outside repeat the border.
  void (*cubic)(const AffineRow& row, std::uint8_t* out);
  void (*linear)(const AffineRow& row, std::uint8_t* out);
};

// Returns the loops for the best instruction set that limit_instruction_set() allows.
const Kernels& kernels();

}  // namespace dtn::image_kernels
