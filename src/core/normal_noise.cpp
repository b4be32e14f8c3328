#include "core/normal_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace dtn {
namespace {

double density(double z) {
  constexpr double kAtZero = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return kAtZero * std::exp(-0.5 * z * z);
}

// Returns the z > start with P(|Z| >= z) = tail. The tail is convex, so Newton steps from below all
// go forward and never overshoot.
double tail_bound(double start, double tail) {
  double z = start, step;
  do {
    step = (std::erfc(z / std::numbers::sqrt2) - tail) / (2 * density(z));
    z += step;
  } while (step > 1e-9);
  return z;
}

// Table of cells of |Z| with equal probability. The entry of a cell [a, b) is the root of
//    E[Z^2 | a <= |Z| < b] = 1 + (a density(a) - b density(b)) / P(a <= Z < b).
std::vector<float> make_table() {
  constexpr double kCell = 1.0 / kNormalTableSize;
  std::vector<float> table(kNormalTableSize);
  double a = 0;
  for (int i = 0; i < kNormalTableSize; ++i) {
    const bool last = i + 1 == kNormalTableSize;
    const double b =
        last ? std::numeric_limits<double>::infinity() : tail_bound(a, 1 - (i + 1) * kCell);
    const double at_b = last ? 0 : b * density(b);
    table[static_cast<std::size_t>(i)] =
        static_cast<float>(std::sqrt(1 + 2 * (a * density(a) - at_b) / kCell));
    a = b;
  }
  return table;
}

}  // namespace

const float* normal_table() {
  static const std::vector<float> table = make_table();
  return table.data();
}

void write_noise(std::uint64_t seed, std::uint64_t first, std::int64_t count, float* out) {
  const float* table = normal_table();
  std::uint64_t group = first / kNoisePerGroup;
  std::int64_t skip = static_cast<std::int64_t>(first % kNoisePerGroup);
  for (; count > 0; ++group, skip = 0) {
    const Philox4 words = noise_words(seed, group);
    float values[kNoisePerGroup];
    for (int k = 0; k < kNoisePerGroup; ++k) values[k] = noise_of(table, words, k);
    const std::int64_t n = std::min(count, kNoisePerGroup - skip);
    std::copy_n(values + skip, n, out);
    out += n;
    count -= n;
  }
}

}  // namespace dtn
