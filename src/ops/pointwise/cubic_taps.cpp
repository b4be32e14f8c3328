#include "ops/pointwise/cubic_taps.h"

#include <algorithm>
#include <cmath>

namespace dtn {

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

Taps clamped_cubic_taps(double centre, std::int64_t from) {
  Taps taps;
  const double base = std::floor(centre);
  for (int k = -1; k <= 2; ++k) {
    const auto at = static_cast<std::int64_t>(base) + k;
    taps.push_back({std::clamp<std::int64_t>(at, 0, from - 1), cubic(centre - (base + k), -0.75)});
  }
  return taps;
}

Taps clamped_linear_taps(double centre, std::int64_t from) {
  centre = std::clamp(centre, 0.0, static_cast<double>(from - 1));
  const auto at = static_cast<std::int64_t>(centre);
  const double of_next = centre - static_cast<double>(at);
  return {{at, 1 - of_next}, {std::min(at + 1, from - 1), of_next}};
}

}  // namespace dtn
