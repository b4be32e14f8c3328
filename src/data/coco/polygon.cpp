#include "data/coco/polygon.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "data/sample/no_contraction.h"
#include "dtn/core/check.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

constexpr std::int64_t kFifths = 5;
// Between u = 5 X + 2 and the next u lies the middle of column X.
constexpr std::int64_t kMiddle = 2;
constexpr std::int64_t kMaxCrossings = std::int64_t{1} << 26;

std::int32_t fifths_of(double pixels) {
  const double fifths = 5 * pixels + 0.5;
  if (!(std::abs(fifths) < 2147483648.0)) {
    throw DataError(cat("a corner of a polygon is at ", pixels,
                        " pixels, far from any image; correct the coordinate"));
  }
  return static_cast<std::int32_t>(fifths);
}

// A side of a polygon: its points are numbered from 0 to length() along the longer axis.
class Side {
 public:
  Side(const Corner& from, const Corner& to) : from_(from), to_(to) {
    const std::int64_t du = distance(from.u, to.u), dv = distance(from.v, to.v);
    along_u_ = du >= dv;
    length_ = std::max(du, dv);
    if (along_u_ ? from_.u > to_.u : from_.v > to_.v) std::swap(from_, to_);
    if (length_ > 0) {
      const std::int64_t rise = along_u_ ? std::int64_t{to_.v} - from_.v  //
                                         : std::int64_t{to_.u} - from_.u;
      slope_ = static_cast<double>(rise) / static_cast<double>(length_);
    }
  }

  // Range of columns whose middle the side crosses, within [0, width): empty if end <= begin.
  struct Columns {
    std::int64_t begin = 0, end = 0;
  };
  Columns columns(std::int64_t width) const {
    std::int64_t low = u_at(0), high = u_at(length_);
    if (low > high) std::swap(low, high);
    // Column X is crossed if low <= 5 X + 2 < high.
    const std::int64_t begin = std::max<std::int64_t>(low - kMiddle + kFifths - 1, 0) / kFifths;
    const std::int64_t end = std::max<std::int64_t>(high - kMiddle + kFifths - 1, 0) / kFifths;
    return {begin, std::min(end, width)};
  }

  // Returns min v of the two points between which u passes the middle of a column of columns().
  std::int64_t v_between(std::int64_t column) const {
    const std::int64_t before = kFifths * column + kMiddle;
    const std::int64_t step = along_u_ ? before - from_.u : last_step_before(before);
    return std::min(v_at(step), v_at(step + 1));
  }

 private:
  static std::int64_t distance(std::int64_t a, std::int64_t b) { return std::abs(a - b); }

  std::int64_t u_at(std::int64_t step) const {
    return along_u_ ? from_.u + step : across(from_.u, step);
  }
  std::int64_t v_at(std::int64_t step) const {
    return along_u_ ? across(from_.v, step) : from_.v + step;
  }
  std::int64_t across(std::int32_t start, std::int64_t step) const {
    return static_cast<std::int64_t>(start + slope_ * static_cast<double>(step) + 0.5);
  }

  // Returns the last step of a steep side whose u is on the near side of the middle after `before`.
  // Rounding keeps the order of u along the side, so it is found by bisection.
  std::int64_t last_step_before(std::int64_t before) const {
    const bool rising = slope_ > 0;
    std::int64_t low = 0, high = length_;
    while (high - low > 1) {
      const std::int64_t step = low + (high - low) / 2;
      ((u_at(step) <= before) == rising ? low : high) = step;
    }
    return low;
  }

  Corner from_, to_;
  bool along_u_ = false;
  std::int64_t length_ = 0;  // steps
  double slope_ = 0;
};

// Calls visit(side) for the sides of a polygon in order.
template <class Visit>
void for_each_side(std::span<const Corner> corners, const Visit& visit) {
  for (std::size_t i = 0; i < corners.size(); ++i) {
    visit(Side(corners[i], corners[i + 1 < corners.size() ? i + 1 : 0]));
  }
}

std::int64_t row_of(std::int64_t v, std::int64_t height) {
  const std::int64_t row = (std::max(v, kMiddle) + kFifths - 1 - kMiddle) / kFifths;
  return std::min(row, height);
}

// Returns the pixels of a polygon from which on its mask changes, sorted.
std::vector<std::uint32_t> changes_of(std::span<const Corner> corners, std::int64_t height,
                                      std::int64_t width) {
  std::vector<std::uint32_t> changes;
  for_each_side(corners, [&](const Side& side) {
    const Side::Columns columns = side.columns(width);
    for (std::int64_t x = columns.begin; x < columns.end; ++x) {
      const std::int64_t pixel = x * height + row_of(side.v_between(x), height);
      changes.push_back(static_cast<std::uint32_t>(pixel));
    }
  });
  std::ranges::sort(changes);
  return changes;
}

Rle mask_of_changes(std::span<const std::uint32_t> changes, std::int64_t height,
                    std::int64_t width) {
  Rle mask{height, width, {}};
  const auto pixels = static_cast<std::uint32_t>(height * width);
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < changes.size();) {
    std::size_t same = i + 1;
    while (same < changes.size() && changes[same] == changes[i]) ++same;
    const bool is_change = (same - i) % 2 == 1;  // two changes cancel
    if (is_change && changes[i] < pixels) {
      mask.runs.push_back(changes[i] - begin);
      begin = changes[i];
    }
    i = same;
  }
  mask.runs.push_back(pixels - begin);
  return mask;
}

void check_work(std::span<const std::span<const Corner>> polygons, std::int64_t width) {
  std::int64_t crossings = 0;
  for (const std::span<const Corner> corners : polygons) {
    for_each_side(corners, [&](const Side& side) {
      const Side::Columns columns = side.columns(width);
      crossings += std::max<std::int64_t>(columns.end - columns.begin, 0);
      if (crossings <= kMaxCrossings) return;
      throw DataError(cat("the sides of the polygons cross more than ", kMaxCrossings,
                          " columns of the image; simplify them"));
    });
  }
}

}  // namespace

Corner corner_at(double x, double y) { return {fifths_of(x), fifths_of(y)}; }

Rle rasterize(std::span<const std::vector<double>> polygons, std::int64_t height,
              std::int64_t width) {
  std::vector<std::vector<Corner>> rounded;
  for (const std::vector<double>& polygon : polygons) {
    if (polygon.size() % 2 != 0) {
      throw DataError(cat("a polygon of ", polygon.size(), " coordinates; they must be pairs"));
    }
    std::vector<Corner>& corners = rounded.emplace_back();
    for (std::size_t i = 0; i < polygon.size(); i += 2) {
      corners.push_back(corner_at(polygon[i], polygon[i + 1]));
    }
  }
  const std::vector<std::span<const Corner>> views(rounded.begin(), rounded.end());
  return rasterize(views, height, width);
}

Rle rasterize(std::span<const std::span<const Corner>> polygons, std::int64_t height,
              std::int64_t width) {
  check_mask_size(height, width);
  check_work(polygons, width);
  std::vector<Rle> masks;
  for (const std::span<const Corner> corners : polygons) {
    const std::vector<std::uint32_t> changes = changes_of(corners, height, width);
    if (!changes.empty()) masks.push_back(mask_of_changes(changes, height, width));
  }
  return masks.empty() ? mask_of_changes({}, height, width) : union_of(masks);
}

}  // namespace dtn
