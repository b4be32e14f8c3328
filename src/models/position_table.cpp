#include "models/position_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dtn {
namespace {

// Keys' cubic convolution.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// The places along one side that an output place reads, and how much of each.
struct Tap {
  std::int64_t index;
  double weight;
};
using Taps = std::vector<Tap>;

// torch.nn.functional.interpolate(mode="bicubic"): four taps, those outside repeat the border.
Taps border_taps(double centre, std::int64_t from) {
  Taps taps;
  const double base = std::floor(centre);
  for (int k = -1; k <= 2; ++k) {
    const auto at = static_cast<std::int64_t>(base) + k;
    taps.push_back({std::clamp<std::int64_t>(at, 0, from - 1), cubic(centre - (base + k), -0.75)});
  }
  return taps;
}

// mode="bilinear": two taps, likewise.
Taps linear_taps(double centre, std::int64_t from) {
  const double at = std::max(centre, 0.0), base = std::floor(at);
  const auto first = static_cast<std::int64_t>(base);
  return {{std::min(first, from - 1), 1 - (at - base)}, {std::min(first + 1, from - 1), at - base}};
}

// The bicubic filter with antialias=True: the filter is as wide as its output place, and what lies outside
// the grid is left out.
Taps antialias_taps(double centre, double stretch, std::int64_t from) {
  Taps taps;
  const auto first = static_cast<std::int64_t>(std::ceil(centre - 2 * stretch));
  const auto last = static_cast<std::int64_t>(std::floor(centre + 2 * stretch));
  double sum = 0;
  for (std::int64_t i = std::max<std::int64_t>(first, 0); i <= std::min(last, from - 1); ++i) {
    taps.push_back({i, cubic((static_cast<double>(i) - centre) / stretch, -0.5)});
    sum += taps.back().weight;
  }
  for (Tap& tap : taps) tap.weight /= sum;
  return taps;
}

std::vector<Taps> taps_of_side(std::int64_t from, std::int64_t to, PosResize rule) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  std::vector<Taps> side;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio - 0.5;
    switch (rule) {
      case PosResize::kBicubic: side.push_back(border_taps(centre, from)); break;
      case PosResize::kBicubicAntialias:
        side.push_back(antialias_taps(centre, std::max(1.0, ratio), from));
        break;
      case PosResize::kBilinear: side.push_back(linear_taps(centre, from)); break;
    }
  }
  return side;
}

}  // namespace

std::int64_t square_side(std::int64_t tokens) {
  if (tokens <= 0) return 0;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  return side * side == tokens ? side : 0;
}

Tensor resize_positions(const Tensor& table, PositionGrid from, PositionGrid to, PosResize rule) {
  const std::int64_t width = table.dim(1);
  const std::vector<Taps> column = taps_of_side(from.height, to.height, rule),
                          row = taps_of_side(from.width, to.width, rule);
  Tensor result = Tensor::zeros({to.height * to.width, width}, DType::kFloat32);
  const float* in = table.data<float>();
  float* out = result.data<float>();
  std::int64_t place = 0;
  for (const Taps& rows : column) {
    for (const Taps& columns : row) {
      for (std::int64_t c = 0; c < width; ++c) {
        double sum = 0;
        for (const Tap& y : rows) {
          for (const Tap& x : columns) {
            sum += y.weight * x.weight * in[(y.index * from.width + x.index) * width + c];
          }
        }
        out[place++] = static_cast<float>(sum);
      }
    }
  }
  return result;
}

}  // namespace dtn
