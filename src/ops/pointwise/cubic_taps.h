// Taps of cubic and linear interpolation along one axis.
#pragma once

#include <cstdint>
#include <vector>

namespace dtn {

// An input position along one axis, and its weight in an output position.
struct Tap {
  std::int64_t index;
  double weight;
};
using Taps = std::vector<Tap>;

// Cubic convolution kernel (Keys, 1981).
double cubic(double x, double a);

// Returns the four taps of an output position at `centre` among `from` input positions, with
// a = -0.75, as torch.nn.functional.interpolate(mode="bicubic"). Taps outside repeat the border.
Taps clamped_cubic_taps(double centre, std::int64_t from);

// The two taps of linear interpolation, as torch.nn.functional.interpolate(mode="bilinear").
Taps clamped_linear_taps(double centre, std::int64_t from);

}  // namespace dtn
