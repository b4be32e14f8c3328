#include "tasks/boxes/anchors.h"

#include <cmath>

#include "dtn/core/check.h"

namespace dtn {
namespace {

const std::vector<double> kRatios = {0.5, 1, 2};

std::vector<AnchorLevel> levels_from(std::int64_t stride, const std::vector<double>& strides_long) {
  constexpr int kLevels = 5;
  std::vector<AnchorLevel> levels;
  for (int l = 0; l < kLevels; ++l, stride *= 2) {
    AnchorLevel level{stride, {}, kRatios};
    for (double of : strides_long) level.sizes.push_back(of * static_cast<double>(stride));
    levels.push_back(level);
  }
  return levels;
}

void check_levels(const std::vector<AnchorLevel>& levels, const std::vector<CellGrid>& grids) {
  DTN_CHECK(levels.size() == grids.size(), "anchors: ", grids.size(), " grids for ", levels.size(),
            " levels");
}

}  // namespace

std::vector<AnchorLevel> retinanet_anchors() {
  return levels_from(8, {4, 4 * std::cbrt(2.0), 4 * std::cbrt(4.0)});
}

std::vector<AnchorLevel> rpn_anchors() { return levels_from(4, {8}); }

std::vector<Box> cell_anchors(const AnchorLevel& level) {
  std::vector<Box> anchors;
  for (double ratio : level.ratios) {
    for (double size : level.sizes) {
      const double w = size / std::sqrt(ratio) / 2, h = size * std::sqrt(ratio) / 2;
      anchors.push_back({static_cast<float>(-w), static_cast<float>(-h), static_cast<float>(w),
                         static_cast<float>(h)});
    }
  }
  return anchors;
}

std::vector<CellGrid> grids_of(const std::vector<AnchorLevel>& levels, std::int64_t height,
                               std::int64_t width) {
  std::vector<CellGrid> grids;
  for (const AnchorLevel& level : levels) {
    grids.push_back(
        {(height + level.stride - 1) / level.stride, (width + level.stride - 1) / level.stride});
  }
  return grids;
}

std::vector<Box> anchors_of(const std::vector<AnchorLevel>& levels,
                            const std::vector<CellGrid>& grids) {
  check_levels(levels, grids);
  std::vector<Box> all;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const std::vector<Box> cell = cell_anchors(levels[l]);
    for (std::int64_t i = 0; i < grids[l].h; ++i) {
      for (std::int64_t j = 0; j < grids[l].w; ++j) {
        const auto x = static_cast<float>(j * levels[l].stride);
        const auto y = static_cast<float>(i * levels[l].stride);
        for (const Box& a : cell) all.push_back({x + a.x1, y + a.y1, x + a.x2, y + a.y2});
      }
    }
  }
  return all;
}

std::vector<std::uint8_t> anchors_inside(const std::vector<AnchorLevel>& levels,
                                         const std::vector<CellGrid>& grids,
                                         const std::vector<CellGrid>& own) {
  check_levels(levels, grids);
  check_levels(levels, own);
  std::vector<std::uint8_t> inside;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    for (std::int64_t i = 0; i < grids[l].h; ++i) {
      for (std::int64_t j = 0; j < grids[l].w; ++j) {
        const bool counts = i < own[l].h && j < own[l].w;
        inside.insert(inside.end(), static_cast<std::size_t>(levels[l].anchors()), counts);
      }
    }
  }
  return inside;
}

}  // namespace dtn
