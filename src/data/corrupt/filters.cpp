#include "data/corrupt/filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "data/corrupt/kernels.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

// Collects the rows or columns on both sides of a middle one, the outermost pair first.
template <class At>
void fill_pairs(int radius, At&& at, std::vector<const double*>& before,
                std::vector<const double*>& after) {
  before.clear();
  after.clear();
  for (int k = radius; k > 0; --k) {
    before.push_back(at(-k));
    after.push_back(at(k));
  }
}

// Copies a row of `width` pixels and repeats the edge pixels `margin` times on both sides.
template <class In, class Out>
void extend_row(const In* in, int width, int channels, int margin, Out* out) {
  const std::int64_t row = static_cast<std::int64_t>(width) * channels;
  for (int i = 0; i < margin * channels; ++i) {
    out[i] = static_cast<Out>(in[i % channels]);
    out[margin * channels + row + i] = static_cast<Out>(in[row - channels + i % channels]);
  }
  std::copy_n(in, row, out + margin * channels);
}

int floor_mod(int i, int n) { return (i % n + n) % n; }

}  // namespace

double exponential(double x) {
  // Lowers the value by 1/32 to 1/16 of a unit in the last place.
  constexpr long double kDown = 1 - 0x1p-57L;
  return static_cast<double>(std::exp(static_cast<long double>(x)) * kDown);
}

double pairwise_sum(const std::vector<double>& values) {
  constexpr std::size_t kSums = 8;
  const std::size_t n = values.size();
  double total = 0;
  std::size_t i = 0;
  if (n >= kSums) {
    std::array<double, kSums> s;
    std::copy_n(values.begin(), kSums, s.begin());
    for (i = kSums; i + kSums <= n; i += kSums) {
      for (std::size_t k = 0; k < kSums; ++k) s[k] += values[i + k];
    }
    total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
  for (; i < n; ++i) total += values[i];
  return total;
}

std::vector<double> gaussian_taps(double sigma, double truncate) {
  const int radius = static_cast<int>(truncate * sigma + 0.5);
  std::vector<double> taps;
  for (int i = -radius; i <= radius; ++i)
    taps.push_back(exponential(-0.5 / (sigma * sigma) * (i * i)));
  const double sum = pairwise_sum(taps);
  for (double& tap : taps) tap /= sum;
  return taps;
}

void gaussian_filter(const std::vector<double>& in, const PlaneShape& shape,
                     const std::vector<double>& taps, CorruptScratch& scratch,
                     std::vector<double>& out) {
  const int radius = static_cast<int>(taps.size() / 2);
  std::vector<double> weights{taps[static_cast<std::size_t>(radius)]};
  weights.insert(weights.end(), taps.begin(), taps.begin() + radius);  // the outermost first
  const std::int64_t row = shape.row();
  const std::int64_t margin = static_cast<std::int64_t>(radius) * shape.channels;
  scratch.wide_line.resize(static_cast<std::size_t>(2 * row + 2 * margin));
  double* const column_sums = scratch.wide_line.data();
  double* const extended = column_sums + row;
  out.resize(static_cast<std::size_t>(shape.size()));
  std::vector<const double*> before, after;
  for (int y = 0; y < shape.height; ++y) {
    const auto row_at = [&](int offset) {
      return in.data() + std::clamp(y + offset, 0, shape.height - 1) * row;
    };
    fill_pairs(radius, row_at, before, after);
    kernels().paired64({row_at(0), before.data(), after.data(), weights.data(), radius}, row,
                       column_sums);
    extend_row(column_sums, shape.width, shape.channels, radius, extended);
    const auto pixel_at = [&](int offset) { return extended + margin + offset * shape.channels; };
    fill_pairs(radius, pixel_at, before, after);
    kernels().paired64({pixel_at(0), before.data(), after.data(), weights.data(), radius}, row,
                       out.data() + y * row);
  }
}

void motion_filter(const std::uint8_t* in, const PlaneShape& shape, const Motion& motion,
                   CorruptScratch& scratch, std::uint8_t* out) {
  const int count = 2 * motion.radius + 1;
  const double angle = motion.degrees * std::numbers::pi / 180;
  std::vector<double> weights;
  std::vector<int> dx, dy;
  for (int i = 0; i < count; ++i) {
    weights.push_back(exponential(-(i * i) / (2 * motion.sigma * motion.sigma)));
    dx.push_back(static_cast<int>(std::ceil(i * std::cos(angle) - 0.5)));
    dy.push_back(static_cast<int>(std::ceil(i * std::sin(angle) - 0.5)));
  }
  const double sum = pairwise_sum(weights);
  for (double& weight : weights) weight /= sum;

  const std::int64_t row = shape.row();
  const std::int64_t stride = row + 2ll * count * shape.channels;
  scratch.wide.resize(static_cast<std::size_t>(stride * shape.height));
  scratch.wide_line.resize(static_cast<std::size_t>(row));
  for (int y = 0; y < shape.height; ++y) {
    extend_row(in + y * row, shape.width, shape.channels, count, &scratch.wide[y * stride]);
  }
  std::vector<const double*> taps(weights.size());
  for (int y = 0; y < shape.height; ++y) {
    for (std::size_t i = 0; i < taps.size(); ++i) {
      taps[i] = scratch.wide.data() + std::clamp(y + dy[i], 0, shape.height - 1) * stride +
                (count + dx[i]) * shape.channels;
    }
    double* const line = scratch.wide_line.data();
    kernels().sum64({taps.data(), weights.data(), count}, row, line);
    // ImageMagick stores a byte times 257 in 16 bits, rounds to 16 bits and truncates back.
    for (std::int64_t i = 0; i < row; ++i) {
      out[y * row + i] =
          static_cast<std::uint8_t>(static_cast<std::int32_t>(257 * line[i] + 0.5) / 257);
    }
  }
}

ZoomAxis zoom_axis(int side, double factor) {
  ZoomAxis axis;
  axis.count = static_cast<int>(std::ceil(side / factor));
  axis.first = (side - axis.count) / 2;
  const int stretched = round_even(axis.count * factor);
  const int begin = (stretched - side) / 2;
  for (int i = 0; i < side; ++i) {
    const double at = static_cast<double>(begin + i) * (axis.count - 1) / (stretched - 1);
    const int before = std::min(static_cast<int>(at), axis.count - 2);
    axis.at.push_back(before);
    axis.share.push_back(static_cast<float>(at - before));
  }
  return axis;
}

int mirror_without_edge(int i, int n) {
  if (n == 1) return 0;
  const int at = floor_mod(i, 2 * n - 2);
  return at < n ? at : 2 * n - 2 - at;
}

int mirror_with_edge(int i, int n) {
  const int at = floor_mod(i, 2 * n);
  return at < n ? at : 2 * n - 1 - at;
}

}  // namespace dtn::corrupt
