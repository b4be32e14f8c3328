// Filters and zooms that several corruptions share. Private to dtn_data.
#pragma once

#include <cstdint>
#include <vector>

#include "data/corrupt/corruptions.h"

namespace dtn::corrupt {

// exp(x), rounded to the nearest double but to the lower one where both are nearly as near. A pixel
// whose blurred value is a whole number but for rounding falls to one side or the other by the last
// bit of the taps: exp(-1/8), which lies 0.47 of a unit from one double and 0.53 from the next, makes
// 4 % of the values of a blur of sigma 2. The lower one is that of the arithmetic of the original on
// a processor with AVX-512.
double exponential(double x);

// The sum in numpy's order, for the same reason: eight running sums.
double pairwise_sum(const std::vector<double>& values);

// exp(-i^2 / (2 sigma^2)) for |i| <= int(truncate sigma + 1/2), divided by their sum.
std::vector<double> gaussian_taps(double sigma, double truncate = 4);

// in [height, width, channels] and out, float64; the border repeats the edge pixel. Columns first, as
// scipy does.
struct PlaneShape {
  int height = 0, width = 0, channels = 1;
  std::int64_t row() const { return static_cast<std::int64_t>(width) * channels; }
  std::int64_t size() const { return row() * height; }
};
void gaussian_filter(const std::vector<double>& in, const PlaneShape& shape,
                     const std::vector<double>& taps, CorruptScratch& scratch,
                     std::vector<double>& out);

// ImageMagick's motion blur of bytes: 2 radius + 1 taps, one-sided, along `degrees`, y downward; the
// border repeats the edge pixel.
struct Motion {
  int radius = 0;
  double sigma = 1, degrees = 0;
};
void motion_filter(const std::uint8_t* in, const PlaneShape& shape, const Motion& motion,
                   CorruptScratch& scratch, std::uint8_t* out);

// One direction of a zoom into the middle: of `side` pixels ceil(side / factor) are stretched to
// factor times as many with corners aligned, and the middle `side` of these are wanted.
struct ZoomAxis {
  int first = 0, count = 0;      // of the source pixels in the middle
  std::vector<std::int32_t> at;  // [side]: the pixel before, from `first`; the next one exists
  std::vector<float> share;      // [side]: of the next one
};
ZoomAxis zoom_axis(int side, double factor);

// Mirrors an index into [0, n): without the edge pixel (-1 is 1), or with it (-1 is 0).
int mirror_without_edge(int i, int n);
int mirror_with_edge(int i, int n);

}  // namespace dtn::corrupt
