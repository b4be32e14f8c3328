// RoIs on a small pyramid, and RoIAlign sample by sample in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/detect/roi_align.h"

namespace dtn::test {

// Grids, boxes and the places of the boxes. Level l has cells of 4 * 2^l pixels.
struct RoiCase {
  std::int64_t batch = 2, channels = 5, size = 7;
  std::vector<std::int64_t> grid_h{12, 6}, grid_w{17, 9};
  std::vector<std::int64_t> image, level;
  std::vector<float> boxes;

  std::int64_t rois() const { return static_cast<std::int64_t>(image.size()); }
  std::int64_t outputs() const { return rois() * size * size * channels; }
  std::int64_t cells(std::size_t l) const { return batch * grid_h[l] * grid_w[l] * channels; }
  double scale(std::size_t l) const { return 0.25 / static_cast<double>(1 << l); }

  void add(std::int64_t b, std::int64_t l, float x1, float y1, float x2, float y2) {
    image.push_back(b), level.push_back(l);
    boxes.insert(boxes.end(), {x1, y1, x2, y2});
  }
  // Boxes of all kinds: inside, tiny, narrow, at and outside of all borders, larger than the image,
  // without area. No sample lies exactly where samples begin to read 0.
  void add_all_kinds() {
    add(0, 0, 3.3f, 5.1f, 40.2f, 33.7f);
    add(1, 0, 10, 10, 10.5f, 11);
    add(1, 1, 0, 0, 68, 48);
    add(0, 1, -9, -7, 30, 20);
    add(0, 0, 50, 30, 90, 70);
    add(1, 0, -101.3f, -99.3f, 200.7f, 201);
    add(1, 1, 20, 1, 21, 47);
    add(0, 1, 20, 20, 20, 30);
    add(0, 0, 30, 30, 20, 40);
    add(0, 0, 8, 8, 36, 36);
    add(0, 0, 8, 8, 36, 36);
    add(1, 0, -60, 2, -20, 30);
    add(1, 0, 64, 44, 70, 60);
  }

  RoiAlignShape shape(DType dtype) const {
    RoiAlignShape s{};
    s.dtype = dtype, s.levels = static_cast<int>(grid_h.size());
    s.batch = batch, s.channels = channels, s.rois = rois(), s.size = size;
    for (std::size_t l = 0; l < grid_h.size(); ++l) {
      s.grid_h[l] = grid_h[l], s.grid_w[l] = grid_w[l], s.scale[l] = scale(l);
    }
    s.image = image.data(), s.level = level.data(), s.boxes = boxes.data();
    return s;
  }

  // Calls f(output, cell, weight, share) for every bilinear weight of RoI r, without channels:
  // `output` is a bin of all RoIs, `cell` a cell of the images of the level. `share` is the weight
  // of the whole sample.
  template <class F>
  void for_each_weight(std::size_t r, F&& f) const {
    const auto l = static_cast<std::size_t>(level[r]);
    const double x1 = boxes[4 * r] * scale(l) - 0.5, y1 = boxes[4 * r + 1] * scale(l) - 0.5;
    const double x2 = boxes[4 * r + 2] * scale(l) - 0.5, y2 = boxes[4 * r + 3] * scale(l) - 0.5;
    const double bins = static_cast<double>(size), w = (x2 - x1) / bins, h = (y2 - y1) / bins;
    if (!(w > 0) || !(h > 0)) return;
    const double nx = std::ceil(w), ny = std::ceil(h);
    for (std::int64_t bin = 0; bin < size * size; ++bin) {
      for (double ky = 0.5; ky < ny; ++ky) {
        for (double kx = 0.5; kx < nx; ++kx) {
          const double y = y1 + (static_cast<double>(bin / size) + ky / ny) * h;
          const double x = x1 + (static_cast<double>(bin % size) + kx / nx) * w;
          const auto output = static_cast<std::int64_t>(r) * size * size + bin;
          corners(l, image[r], y, x, [&](std::int64_t cell, double weight) {
            f(output, cell, weight / (nx * ny), 1 / (nx * ny));
          });
        }
      }
    }
  }

 private:
  template <class F>
  void corners(std::size_t l, std::int64_t b, double y, double x, F&& f) const {
    const double h = static_cast<double>(grid_h[l]), w = static_cast<double>(grid_w[l]);
    if (y < -1 || y > h || x < -1 || x > w) return;
    y = std::clamp(y, 0.0, h - 1), x = std::clamp(x, 0.0, w - 1);
    for (double i = std::floor(y); i <= std::min(std::floor(y) + 1, h - 1); ++i) {
      for (double j = std::floor(x); j <= std::min(std::floor(x) + 1, w - 1); ++j) {
        const double weight = (1 - std::abs(y - i)) * (1 - std::abs(x - j));
        const auto row = b * grid_h[l] + static_cast<std::int64_t>(i);
        f(row * grid_w[l] + static_cast<std::int64_t>(j), weight);
      }
    }
  }
};

}  // namespace dtn::test
