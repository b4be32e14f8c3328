// Filters, zooms and clouds of the corruptions. Private to dtn_data.
#pragma once

#include <cstdint>
#include <vector>

#include "data/corrupt/corruptions.h"

namespace dtn::corrupt {

// Returns exp(x), rounded to the nearest double; near ties are rounded down. If a blurred value is
// a whole number except for rounding, the last bit of the taps decides the pixel. For example,
// exp(-1/8) lies 0.47 of a unit from one double and 0.53 from the next; it decides 4 % of the
// values of a blur of sigma 2. The lower double is that of the original on a processor with
// AVX-512.
double exponential(double x);

// Returns the sum in numpy's order, for the same reason: eight running sums.
double pairwise_sum(const std::vector<double>& values);

// Returns exp(-i^2 / (2 sigma^2)) for |i| <= int(truncate sigma + 1/2), divided by their sum.
std::vector<double> gaussian_taps(double sigma, double truncate = 4);

// Shape [height, width, channels].
struct PlaneShape {
  int height = 0, width = 0, channels = 1;
  std::int64_t row() const { return static_cast<std::int64_t>(width) * channels; }
  std::int64_t size() const { return row() * height; }
};
// Blurs `in` to `out`, both of `shape`, float64. The border repeats the edge pixel. Filters the
// columns first, as scipy does.
void gaussian_filter(const std::vector<double>& in, const PlaneShape& shape,
                     const std::vector<double>& taps, CorruptScratch& scratch,
                     std::vector<double>& out);

// 2 radius + 1 taps, one-sided, along `degrees`, y downward.
struct Motion {
  int radius = 0;
  double sigma = 1, degrees = 0;
};
// Applies ImageMagick's motion blur to bytes. The border repeats the edge pixel.
void motion_filter(const std::uint8_t* in, const PlaneShape& shape, const Motion& motion,
                   CorruptScratch& scratch, std::uint8_t* out);

// One direction of a zoom into the middle. The middle ceil(side / factor) of `side` pixels are
// stretched to factor times as many, with corners aligned. The middle `side` of these remain.
struct ZoomAxis {
  int first = 0, count = 0;      // source pixels in the middle
  std::vector<std::int32_t> at;  // [side]: pixel before, counted from `first`; the next one exists
  std::vector<float> share;      // [side]: weight of the next pixel
};
ZoomAxis zoom_axis(int side, double factor);

// The kernel of defocus blur: weights [2 reach + 1, 2 reach + 1], symmetric. At severities 4 and 5
// they sum to 1.013 and 1.011, so the image becomes lighter.
struct DefocusKernel {
  int reach = 0;
  std::vector<double> weights;
  double at(int dy, int dx) const {
    const std::size_t side = 2 * static_cast<std::size_t>(reach) + 1;
    return weights[static_cast<std::size_t>(dy + reach) * side +
                   static_cast<std::size_t>(dx + reach)];
  }
};
DefocusKernel defocus_kernel(int severity);

// Mirror an index into [0, n): without the edge pixel (-1 becomes 1), or with it (-1 becomes 0).
int mirror_without_edge(int i, int n);
int mirror_with_edge(int i, int n);

inline constexpr int kPlasmaSide = 256;  // of the benchmark

// Draws a fractal surface that wraps around, by the diamond-square algorithm, scaled to [0, 1].
// plasma [side, side]; `side` is a power of two from 2 on. The noise falls by decay^2 from step to
// step.
void draw_plasma(float decay, Draws& draws, std::vector<std::uint32_t>& words,
                 std::vector<float>& plasma, int side = kPlasmaSide);

}  // namespace dtn::corrupt
