#include "tasks/detect/paste_mask.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/sample/no_contraction.h"
#include "dtn/core/check.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

// The two cells around a pixel along an axis, and their weights. Cells outside have weight 0.
struct CellPair {
  std::int64_t first, second;
  float a, b;
};

// Pixels [begin, begin + cells.size()) of an axis that cells reach.
struct AxisCells {
  std::int64_t begin = 0;
  std::vector<CellPair> cells;
};

AxisCells cells_of(float low, float high, std::int64_t n, std::int64_t pixels) {
  AxisCells axis;
  const double side = static_cast<double>(high) - low;
  if (!(side > 0) || !std::isfinite(side)) return axis;
  const double cell = side / static_cast<double>(n);
  // Pixel centres within half a cell of the box.
  const auto limit = [&](double at) {
    return static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(pixels)));
  };
  axis.begin = limit(std::floor(low - cell / 2 - 0.5));
  const std::int64_t end = limit(std::ceil(high + cell / 2 + 0.5));
  for (std::int64_t i = axis.begin; i < end; ++i) {
    const double at = (static_cast<double>(i) + 0.5 - low) / cell - 0.5;
    const double below = std::floor(at);
    const auto first = static_cast<std::int64_t>(below);
    const auto b = static_cast<float>(at - below);
    const bool has_first = 0 <= first && first < n, has_second = -1 <= first && first + 1 < n;
    axis.cells.push_back({has_first ? first : 0, has_second ? first + 1 : 0, has_first ? 1 - b : 0,
                          has_second ? b : 0});
  }
  return axis;
}

// Collects runs of equal pixels.
class RunWriter {
 public:
  RunWriter(std::int64_t height, std::int64_t width) : rle_{height, width, {}} {}

  void add(bool value, std::int64_t count) {
    if (count == 0) return;
    if (value != value_) {
      rle_.runs.push_back(run_);
      value_ = value;
      run_ = 0;
    }
    run_ += static_cast<std::uint32_t>(count);
  }
  Rle take() {
    rle_.runs.push_back(run_);
    return std::move(rle_);
  }

 private:
  Rle rle_;
  bool value_ = false;
  std::uint32_t run_ = 0;
};

std::vector<float> probabilities(std::span<const float> logits) {
  std::vector<float> p;
  for (const float z : logits) p.push_back(std::isnan(z) ? 0 : 1 / (1 + std::exp(-z)));
  return p;
}

}  // namespace

Rle paste_mask(std::span<const float> logits, const Box& box, std::int64_t height,
               std::int64_t width) {
  const auto n = static_cast<std::int64_t>(std::lround(std::sqrt(logits.size())));
  DTN_CHECK(n > 0 && n * n == static_cast<std::int64_t>(logits.size()), "a mask of ", logits.size(),
            " logits is not square");
  const std::vector<float> p = probabilities(logits);
  const AxisCells rows = cells_of(box.y1, box.y2, n, height);
  const AxisCells columns = cells_of(box.x1, box.x2, n, width);
  RunWriter runs(height, width);
  const auto count = static_cast<std::int64_t>(rows.cells.size());
  const auto used = static_cast<std::int64_t>(count > 0 ? columns.cells.size() : 0);
  runs.add(false, columns.begin * height);
  std::vector<float> line(static_cast<std::size_t>(n));  // probabilities at the column
  for (std::int64_t x = 0; x < used; ++x) {
    const CellPair& c = columns.cells[static_cast<std::size_t>(x)];
    for (std::int64_t k = 0; k < n; ++k) {
      const float* row = p.data() + k * n;
      line[static_cast<std::size_t>(k)] = c.a * row[c.first] + c.b * row[c.second];
    }
    runs.add(false, rows.begin);
    for (const CellPair& r : rows.cells) {
      const float value = r.a * line[static_cast<std::size_t>(r.first)] +
                          r.b * line[static_cast<std::size_t>(r.second)];
      runs.add(value >= 0.5f, 1);
    }
    runs.add(false, height - rows.begin - count);
  }
  runs.add(false, (width - columns.begin - used) * height);
  return runs.take();
}

}  // namespace dtn
