// Masks of polygons: the rule, hostile coordinates, and bounded work.
#include "data/coco/polygon.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "dtn/core/check.h"

namespace dtn {
namespace {

using Polygon = std::vector<double>;
using Polygons = std::vector<Polygon>;

constexpr double kFar = 1e9;

// Walks each side point by point, as the rule in polygon.h says.
Rle walked(const Polygon& polygon, std::int64_t height, std::int64_t width) {
  std::vector<std::pair<std::int64_t, std::int64_t>> points;
  const std::size_t corners = polygon.size() / 2;
  for (std::size_t i = 0; i < corners; ++i) {
    const std::size_t j = (i + 1) % corners;
    Corner from = corner_at(polygon[2 * i], polygon[2 * i + 1]);
    Corner to = corner_at(polygon[2 * j], polygon[2 * j + 1]);
    const std::int64_t du = std::abs(from.u - to.u), dv = std::abs(from.v - to.v);
    const std::int64_t length = std::max(du, dv);
    const bool flip = du >= dv ? from.u > to.u : from.v > to.v;
    if (flip) std::swap(from, to);
    const double slope = du >= dv ? double(to.v - from.v) / double(du)  //
                                  : double(to.u - from.u) / double(dv);
    for (std::int64_t d = 0; d <= length; ++d) {
      const std::int64_t t = flip ? length - d : d;
      if (length == 0) {
        points.emplace_back(from.u, from.v);
      } else if (du >= dv) {
        points.emplace_back(from.u + t, std::int64_t(from.v + slope * double(t) + 0.5));
      } else {
        points.emplace_back(std::int64_t(from.u + slope * double(t) + 0.5), from.v + t);
      }
    }
  }
  std::vector<int> changes(static_cast<std::size_t>(height * width + 1));
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto u = std::min(points[i].first, points[i - 1].first);
    const auto v = std::min(points[i].second, points[i - 1].second);
    if (points[i].first == points[i - 1].first || u < 2 || (u - 2) % 5 != 0) continue;
    if ((u - 2) / 5 >= width) continue;
    const double y = std::ceil(std::clamp((double(v) + 0.5) / 5 - 0.5, 0.0, double(height)));
    ++changes[static_cast<std::size_t>((u - 2) / 5 * height + std::int64_t(y))];
  }
  std::vector<std::uint8_t> mask(changes.size() - 1);
  std::uint8_t value = 0;
  for (std::size_t x = 0, i = 0; x < static_cast<std::size_t>(width); ++x) {
    for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y, ++i) {
      value ^= changes[i] % 2;
      mask[y * static_cast<std::size_t>(width) + x] = value;
    }
  }
  return rle_of_mask(mask.data(), height, width);
}

Polygon random_polygon(std::mt19937& random, int kind, double side) {
  Polygon polygon;
  std::uniform_real_distribution<double> inside(0, side), around(-2 * side, 3 * side),
      far(-3000, 3000);
  for (std::size_t i = 0, corners = 3 + random() % 6; i < 2 * corners; ++i) {
    const double whole = double(random() % 40) - 5;
    polygon.push_back(kind == 0   ? inside(random)
                      : kind == 1 ? around(random)
                      : kind == 2 ? far(random)
                                  : whole);
  }
  return polygon;
}

TEST(Polygon, RectangleCoversItsPixels) {
  const Rle mask = rasterize(Polygons{{1, 2, 4, 2, 4, 5, 1, 5}}, 8, 6);
  EXPECT_EQ(bounds_of(mask), (PixelBox{1, 2, 3, 3}));
  EXPECT_EQ(mask_area(mask), 9);
}

TEST(Polygon, EqualsWalkPointByPoint) {
  std::mt19937 random(7);
  std::int64_t covered = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t height = 1 + random() % 30, width = 1 + random() % 30;
    const Polygon polygon = random_polygon(random, round % 4, double(std::max(height, width)));
    const Rle expected = walked(polygon, height, width);
    ASSERT_EQ(rasterize(Polygons{polygon}, height, width), expected) << "round " << round;
    covered += mask_area(expected);
  }
  EXPECT_GT(covered, 100'000);
}

TEST(Polygon, UnionOfSeveral) {
  const Polygons both = {{0, 0, 2, 0, 2, 2, 0, 2}, {1, 1, 4, 1, 4, 4, 1, 4}};
  const std::vector<Rle> each = {rasterize(std::span(both).first(1), 5, 5),
                                 rasterize(std::span(both).last(1), 5, 5)};
  EXPECT_EQ(rasterize(both, 5, 5), union_of(each));
  EXPECT_EQ(mask_area(rasterize(both, 5, 5)), 4 + 9 - 1);
}

TEST(Polygon, DegenerateOnesCoverNothing) {
  for (const Polygon& polygon : Polygons{{}, {1, 1}, {0, 0, 4, 4}, {2, 2, 2, 2, 2, 2}}) {
    EXPECT_EQ(mask_area(rasterize(Polygons{polygon}, 5, 5)), 0);
  }
  EXPECT_EQ(rasterize(Polygons{}, 3, 2), (Rle{3, 2, {6}}));
  EXPECT_EQ(rasterize(Polygons{{0, 0, 4, 0, 4, 4}}, 0, 5), (Rle{0, 5, {0}}));
}

TEST(Polygon, CornersAreCheckedBeforeConversion) {
  EXPECT_EQ(corner_at(-0.2, 0.3), (Corner{0, 2}));
  EXPECT_EQ(corner_at(-0.5, 4e8), (Corner{-2, 2'000'000'000}));
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -1e300, 1e300,
                           429496730.0, -429496730.0}) {
    EXPECT_THROW(corner_at(bad, 0), DataError) << bad;
    EXPECT_THROW(rasterize(Polygons{{0, 0, 4, bad, 4, 4}}, 5, 5), DataError) << bad;
  }
  EXPECT_THROW(rasterize(Polygons{{0, 0, 4, 0, 4}}, 5, 5), DataError);
  EXPECT_THROW(rasterize(Polygons{{0, 0, kFar, 0, 0, kFar}}, 5, 5), DataError);
  EXPECT_THROW(rasterize(Polygons{}, 1ll << 40, 1ll << 40), DataError);
}

TEST(Polygon, LongSidesCostNoMoreThanTheImage) {
  const double far = 4e8;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    const Rle all = rasterize(Polygons{{-far, -far, far, -far, far, far, -far, far}}, 40, 30);
    ASSERT_EQ(mask_area(all), 40 * 30);
    // Below the diagonal: pixel (x, y) is covered if y >= x.
    const Rle half = rasterize(Polygons{{-far, -far, far, far, -far, far}}, 30, 30);
    ASSERT_EQ(mask_area(half), 30 * 31 / 2);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 5) << "a walk takes hours";
}

TEST(Polygon, RefusesTooManyCrossings) {
  Polygon zigzag;
  for (int i = 0; i < 200; ++i) {
    zigzag.insert(zigzag.end(), {0, double(i), 4e8, double(i)});
  }
  EXPECT_THROW(rasterize(Polygons{zigzag}, 1, 1 << 30), DataError);
  EXPECT_NO_THROW(rasterize(Polygons{zigzag}, 100, 100));
}

}  // namespace
}  // namespace dtn
