#include "tasks/detect/paste_mask.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr double kLeastPixel = 0.5;

// Pixels [begin, begin + next.size()) of an axis, all between the centres of the cells
// `cell` and cell + 1. next[i] is the weight of the latter. Cells -1 and n are 0.
struct PixelGroup {
  std::int64_t cell, begin;
  std::vector<double> next;
};

// Returns the pixels that the cells of a box reach, in order. low and high are its sides.
std::vector<PixelGroup> pixel_groups(float low, float high, std::int64_t n, std::int64_t pixels) {
  std::vector<PixelGroup> groups;
  const double side = static_cast<double>(high) - low, cell = side / static_cast<double>(n);
  if (!(side > 0) || !std::isfinite(side)) return groups;
  const auto pixel = [&](double at) {
    return static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(pixels)));
  };
  // The centres of these pixels lie inside the box. At most 1/2 of a cell reaches beyond it, which
  // is not enough, except at its very side.
  const std::int64_t begin = pixel(std::ceil(low - 0.5)), end = pixel(std::floor(high - 0.5) + 1);
  for (std::int64_t i = begin; i < end; ++i) {
    const double at = (static_cast<double>(i) + 0.5 - low) / cell - 0.5;
    const double first = std::clamp(std::floor(at), -1.0, static_cast<double>(n - 1));
    const auto of = static_cast<std::int64_t>(first);
    if (groups.empty() || groups.back().cell != of) groups.push_back({of, i, {}});
    groups.back().next.push_back(at - first);
  }
  return groups;
}

// Collects runs of equal pixels.
class RunWriter {
 public:
  RunWriter(std::int64_t height, std::int64_t width) : rle_{height, width, {}} {}

  void add(bool value, std::int64_t count) {
    if (count == 0) return;
    if (value != value_) {
      rle_.runs.push_back(static_cast<std::uint32_t>(run_));
      value_ = value;
      run_ = 0;
    }
    run_ += count;
    pixels_ += count;
  }
  // Fills the rest with 0.
  Rle finish() {
    add(false, rle_.height * rle_.width - pixels_);
    rle_.runs.push_back(static_cast<std::uint32_t>(run_));
    return std::move(rle_);
  }
  // Number of pixels so far.
  std::int64_t pixels() const { return pixels_; }

 private:
  Rle rle_;
  bool value_ = false;
  std::int64_t run_ = 0, pixels_ = 0;
};

// Adds pixels of a column between two cells with these values. If both are set, or both are not, so
// are all pixels between them.
void add_group(RunWriter& runs, double value, double next, const PixelGroup& rows) {
  const bool set = value >= kLeastPixel;
  if (set == (next >= kLeastPixel)) {
    runs.add(set, static_cast<std::int64_t>(rows.next.size()));
    return;
  }
  for (const double w : rows.next) runs.add((1 - w) * value + w * next >= kLeastPixel, 1);
}

// Returns the sigmoids with a border of 0: [n + 2, n + 2], by column.
std::vector<double> bordered_columns(std::span<const float> logits, std::size_t n) {
  std::vector<double> cells((n + 2) * (n + 2), 0.0);
  for (std::size_t y = 0; y < n; ++y) {
    for (std::size_t x = 0; x < n; ++x) {
      const double z = logits[y * n + x];
      if (!std::isnan(z)) cells[(x + 1) * (n + 2) + y + 1] = 1 / (1 + std::exp(-z));
    }
  }
  return cells;
}

}  // namespace

Rle paste_mask(std::span<const float> logits, const Box& box, std::int64_t height,
               std::int64_t width) {
  check_mask_size(height, width);
  const auto n = static_cast<std::size_t>(std::lround(std::sqrt(logits.size())));
  DTN_CHECK(n > 0 && n * n == logits.size(), "a mask of ", logits.size(), " logits is no square");
  const auto cells = static_cast<std::int64_t>(n);
  const std::vector<PixelGroup> rows = pixel_groups(box.y1, box.y2, cells, height);
  const std::vector<PixelGroup> columns = pixel_groups(box.x1, box.x2, cells, width);
  RunWriter runs(height, width);
  if (rows.empty()) return runs.finish();
  const std::vector<double> values = bordered_columns(logits, n);
  std::vector<double> line(n + 2);  // the values of the cells at a column of pixels
  for (const PixelGroup& group : columns) {
    const double* first = values.data() + static_cast<std::size_t>(group.cell + 1) * (n + 2);
    const double* second = first + n + 2;
    for (std::size_t i = 0; i < group.next.size(); ++i) {
      const double w = group.next[i];
      for (std::size_t k = 1; k <= n; ++k) line[k] = (1 - w) * first[k] + w * second[k];
      const std::int64_t x = group.begin + static_cast<std::int64_t>(i);
      runs.add(false, x * height + rows.front().begin - runs.pixels());
      for (const PixelGroup& part : rows) {
        const auto k = static_cast<std::size_t>(part.cell + 1);
        add_group(runs, line[k], line[k + 1], part);
      }
    }
  }
  return runs.finish();
}

}  // namespace dtn
