// Blur by a disk.
#include <algorithm>

#include "data/corrupt/families.h"
#include "data/corrupt/filters.h"
#include "data/corrupt/kernels.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

struct Disk {
  int radius;
  double alias;
};
constexpr Disk kDisks[] = {{3, .1}, {4, .5}, {6, .5}, {8, .5}, {10, .5}};

// Returns 2 radius + 1 Gaussian weights.
std::vector<double> alias_taps(int radius, double sigma) {
  std::vector<double> taps;
  double sum = 0;
  for (int i = -radius; i <= radius; ++i) {
    taps.push_back(exponential(std::max(-700.0, -(i * i) / (2 * sigma * sigma))));
    sum += taps.back();
  }
  for (double& tap : taps) tap /= sum;
  return taps;
}

// By symmetry, the quarter to the right of and below the middle determines the kernel: weights
// [reach + 1, reach + 1].
struct Quarter {
  int reach = 0;
  std::vector<float> weights;
};

Quarter quarter_of(int severity) {
  const DefocusKernel kernel = defocus_kernel(severity);
  Quarter quarter{kernel.reach, {}};
  for (int y = 0; y <= kernel.reach; ++y) {
    for (int x = 0; x <= kernel.reach; ++x)
      quarter.weights.push_back(static_cast<float>(kernel.at(y, x)));
  }
  return quarter;
}

// Sums the row dy above y and the row dy below y, for all dy, as floats with mirrored borders. Row
// dy of `sums` has the result; a row has `stride` floats.
void add_rows(const Image& image, int y, int reach, std::int64_t stride, std::vector<float>& sums) {
  const std::int64_t row = static_cast<std::int64_t>(image.width) * 3;
  for (int dy = 0; dy <= reach; ++dy) {
    float* const sum = &sums[static_cast<std::size_t>(dy * stride)];
    float* const middle = sum + 3ll * reach;
    const std::uint8_t* a = &image.pixels[mirror_without_edge(y - dy, image.height) * row];
    const std::uint8_t* b = &image.pixels[mirror_without_edge(y + dy, image.height) * row];
    if (dy == 0) {
      for (std::int64_t i = 0; i < row; ++i) middle[i] = a[i];
    } else {
      for (std::int64_t i = 0; i < row; ++i) middle[i] = static_cast<float>(a[i] + b[i]);
    }
    for (int x = 1; x <= reach; ++x) {
      const int left = 3 * mirror_without_edge(-x, image.width);
      const int right = 3 * mirror_without_edge(image.width - 1 + x, image.width);
      for (int c = 0; c < 3; ++c) {
        middle[-3 * x + c] = middle[left + c];
        middle[row + 3 * (x - 1) + c] = middle[right + c];
      }
    }
  }
}

}  // namespace

DefocusKernel defocus_kernel(int severity) {
  const Disk& disk = kDisks[severity - 1];
  const int reach = disk.radius <= 8 ? 8 : disk.radius;
  const int side = 2 * reach + 1;
  std::vector<double> plain;
  double sum = 0;
  for (int y = -reach; y <= reach; ++y) {
    for (int x = -reach; x <= reach; ++x) {
      plain.push_back(x * x + y * y <= disk.radius * disk.radius ? 1 : 0);
      sum += plain.back();
    }
  }
  const int smooth = disk.radius <= 8 ? 1 : 2;
  const std::vector<double> taps = alias_taps(smooth, disk.alias);
  DefocusKernel kernel{reach, {}};
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      double value = 0;
      for (int i = -smooth; i <= smooth; ++i) {
        for (int j = -smooth; j <= smooth; ++j) {
          // If the disk touches the edge of its grid, mirroring adds mass, as in the original.
          const int at = mirror_without_edge(y + i, side) * side + mirror_without_edge(x + j, side);
          value += taps[static_cast<std::size_t>(i + smooth)] *
                   taps[static_cast<std::size_t>(j + smooth)] * plain[static_cast<std::size_t>(at)];
        }
      }
      kernel.weights.push_back(value / sum);
    }
  }
  return kernel;
}

void defocus_blur(const Image& image, const CorruptJob& job, Image& out) {
  static const Quarter quarters[] = {quarter_of(1), quarter_of(2), quarter_of(3), quarter_of(4),
                                     quarter_of(5)};
  const auto& [reach, weights] = quarters[job.severity - 1];
  const std::int64_t row = static_cast<std::int64_t>(image.width) * 3, stride = row + 6ll * reach;
  CorruptScratch& s = job.scratch;
  s.plane.resize(static_cast<std::size_t>(stride * (reach + 1)));
  s.line.resize(static_cast<std::size_t>(row));
  std::vector<const float*> before, after;
  std::vector<float> used;
  for (int y = 0; y < image.height; ++y) {
    add_rows(image, y, reach, stride, s.plane);
    std::ranges::fill(s.line, 0.0f);
    for (int dy = 0; dy <= reach; ++dy) {
      const float* const middle = &s.plane[static_cast<std::size_t>(dy * stride + 3ll * reach)];
      const float* const w = &weights[static_cast<std::size_t>(dy * (reach + 1))];
      before.clear();
      after.clear();
      used.assign(1, w[0]);
      for (int dx = 1; dx <= reach; ++dx) {
        if (w[dx] == 0) continue;
        before.push_back(middle - 3ll * dx);
        after.push_back(middle + 3ll * dx);
        used.push_back(w[dx]);
      }
      if (w[0] == 0) continue;  // the disk has no row here
      kernels().add_paired32(
          {middle, before.data(), after.data(), used.data(), static_cast<int>(before.size())}, row,
          s.line.data());
    }
    std::uint8_t* const to = &out.pixels[static_cast<std::size_t>(y * row)];
    for (std::int64_t i = 0; i < row; ++i) {
      to[i] = static_cast<std::uint8_t>(std::min(s.line[static_cast<std::size_t>(i)], 255.0f));
    }
  }
}

}  // namespace dtn::corrupt
