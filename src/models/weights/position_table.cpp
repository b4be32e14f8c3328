#include "models/weights/position_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/pointwise/cubic_taps.h"

namespace dtn {
namespace {

// mode="bilinear": two taps; taps outside repeat the border.
Taps linear_taps(double centre, std::int64_t from) {
  const double at = std::max(centre, 0.0), base = std::floor(at);
  const auto first = static_cast<std::int64_t>(base);
  return {{std::min(first, from - 1), 1 - (at - base)}, {std::min(first + 1, from - 1), at - base}};
}

// mode="bicubic", antialias=True: the filter widens with its output position, by `stretch`. Taps
// outside the grid are left out.
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
      case PosResize::kBicubic: side.push_back(clamped_cubic_taps(centre, from)); break;
      case PosResize::kBicubicAntialias:
        side.push_back(antialias_taps(centre, std::max(1.0, ratio), from));
        break;
      case PosResize::kBilinear: side.push_back(linear_taps(centre, from)); break;
    }
  }
  return side;
}

// Returns the ratio q of the progression 1, 1 + q, 1 + q + q^2, ... of `count` terms whose last
// term is `reach`. Searches as timm does: by bisection between 1.01 and 1.5, to 1e-6.
double progression_ratio(std::int64_t count, std::int64_t reach) {
  double left = 1.01, right = 1.5, q = left;
  while (right - left > 1e-6) {
    q = (left + right) / 2;
    const double last = (1 - std::pow(q, static_cast<double>(count))) / (1 - q);
    (last > static_cast<double>(reach) ? right : left) = q;
  }
  return q;
}

// Returns the taps of each signed offset in a window of side `to` among the 2 from - 1 offsets of a
// window of side `from`. Offsets beyond the last repeat it.
std::vector<Taps> offset_taps(std::int64_t from, std::int64_t to) {
  const double q = progression_ratio(from - 1, to - 1);
  std::vector<double> places(static_cast<std::size_t>(2 * from - 1), 0.0);
  double at = 1;
  for (std::int64_t i = 1; i < from; ++i) {
    places[static_cast<std::size_t>(from - 1 + i)] = at;
    places[static_cast<std::size_t>(from - 1 - i)] = -at;
    at += std::pow(q, static_cast<double>(i));
  }
  std::vector<Taps> side;
  for (std::int64_t offset = 1 - to; offset < to; ++offset) {
    const double place = std::clamp(static_cast<double>(offset), places.front(), places.back());
    const auto right = std::ranges::lower_bound(places, place);
    const std::int64_t index = right - places.begin();
    if (*right == place) {
      side.push_back({{index, 1}});
      continue;
    }
    const double share = (place - *(right - 1)) / (*right - *(right - 1));
    side.push_back({{index - 1, 1 - share}, {index, share}});
  }
  return side;
}

// x [outer, from.tokens(), inner] -> [outer, columns rows, inner]
Tensor resampled(const Tensor& x, PositionGrid from, const std::vector<Taps>& column,
                 const std::vector<Taps>& row) {
  const std::int64_t outer = x.dim(0), inner = x.dim(2);
  const auto tokens = static_cast<std::int64_t>(column.size() * row.size());
  Tensor result = Tensor::zeros({outer, tokens, inner}, DType::kFloat32);
  float* out = result.data<float>();
  std::int64_t place = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    const float* in = x.data<float>() + o * from.tokens() * inner;
    for (const Taps& rows : column) {
      for (const Taps& columns : row) {
        for (std::int64_t c = 0; c < inner; ++c) {
          double sum = 0;
          for (const Tap& y : rows) {
            for (const Tap& t : columns) {
              sum += y.weight * t.weight * in[(y.index * from.width + t.index) * inner + c];
            }
          }
          out[place++] = static_cast<float>(sum);
        }
      }
    }
  }
  return result;
}

}  // namespace

std::int64_t square_side(std::int64_t tokens) {
  if (tokens <= 0) return 0;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  return side * side == tokens ? side : 0;
}

Tensor resize_positions(const Tensor& x, PositionGrid from, PositionGrid to, PosResize rule) {
  return resampled(x, from, taps_of_side(from.height, to.height, rule),
                   taps_of_side(from.width, to.width, rule));
}

Tensor resize_window_biases(const Tensor& table, std::int64_t from, std::int64_t to) {
  const std::int64_t heads = table.dim(1), side = 2 * from - 1;
  const std::vector<Taps> taps = offset_taps(from, to);
  return resampled(table.reshape({1, side * side, heads}), {side, side}, taps, taps)
      .reshape({(2 * to - 1) * (2 * to - 1), heads});
}

}  // namespace dtn
