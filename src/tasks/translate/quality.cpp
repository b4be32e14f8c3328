#include "tasks/translate/quality.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::int64_t kWindow = 11;
constexpr double kDeviation = 1.5;
constexpr double kLeastError = 1e-10;
constexpr double kC1 = 0.01 * 0.01, kC2 = 0.03 * 0.03;  // (K range)^2

double clamped(float value) { return std::clamp(static_cast<double>(value), 0.0, 1.0); }

const std::array<double, kWindow>& window() {
  static const std::array<double, kWindow> weights = [] {
    std::array<double, kWindow> w{};
    double sum = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double x = static_cast<double>(i) - (kWindow - 1) / 2.0;
      sum += w[i] = std::exp(-x * x / (2 * kDeviation * kDeviation));
    }
    for (double& v : w) v /= sum;
    return w;
  }();
  return weights;
}

// A plane of values with its width.
struct Plane {
  std::vector<double> values;
  std::size_t height, width;
};

// Weighted means of the windows that lie inside the plane.
Plane windowed(const Plane& plane) {
  const auto& w = window();
  Plane rows{{}, plane.height, plane.width - w.size() + 1};
  rows.values.resize(rows.height * rows.width);
  for (std::size_t y = 0; y < rows.height; ++y) {
    for (std::size_t x = 0; x < rows.width; ++x) {
      double sum = 0;
      for (std::size_t k = 0; k < w.size(); ++k) {
        sum += w[k] * plane.values[y * plane.width + x + k];
      }
      rows.values[y * rows.width + x] = sum;
    }
  }
  Plane means{{}, plane.height - w.size() + 1, rows.width};
  means.values.resize(means.height * means.width);
  for (std::size_t y = 0; y < means.height; ++y) {
    for (std::size_t k = 0; k < w.size(); ++k) {
      for (std::size_t x = 0; x < means.width; ++x) {
        means.values[y * means.width + x] += w[k] * rows.values[(y + k) * rows.width + x];
      }
    }
  }
  return means;
}

// The weighted means of f(a, b) over the windows.
template <class F>
Plane moments(const Plane& a, const Plane& b, F&& f) {
  Plane product{{}, a.height, a.width};
  product.values.resize(a.values.size());
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    product.values[i] = f(a.values[i], b.values[i]);
  }
  return windowed(product);
}

// Sum of the similarity over the windows of a channel.
double similarity(const Plane& a, const Plane& b) {
  const Plane mean_a = windowed(a), mean_b = windowed(b);
  const Plane aa = moments(a, b, [](double x, double) { return x * x; });
  const Plane bb = moments(a, b, [](double, double y) { return y * y; });
  const Plane ab = moments(a, b, [](double x, double y) { return x * y; });
  double sum = 0;
  for (std::size_t i = 0; i < mean_a.values.size(); ++i) {
    const double x = mean_a.values[i], y = mean_b.values[i];
    const double variances = aa.values[i] - x * x + bb.values[i] - y * y;
    const double covariance = ab.values[i] - x * y;
    sum += (2 * x * y + kC1) * (2 * covariance + kC2) / ((x * x + y * y + kC1) * (variances + kC2));
  }
  return sum;
}

Plane channel_of(std::span<const float> picture, const PictureShape& shape, std::int64_t channel) {
  const auto size = static_cast<std::size_t>(shape.height * shape.width);
  const auto part = picture.subspan(static_cast<std::size_t>(channel) * size, size);
  Plane plane{{}, static_cast<std::size_t>(shape.height), static_cast<std::size_t>(shape.width)};
  for (const float value : part) plane.values.push_back(clamped(value));
  return plane;
}

}  // namespace

double psnr(std::span<const float> picture, std::span<const float> target) {
  DTN_CHECK(picture.size() == target.size() && !picture.empty(), "pictures of ", picture.size(),
            " and ", target.size(), " values");
  double squares = 0;
  for (std::size_t i = 0; i < picture.size(); ++i) {
    const double difference = clamped(picture[i]) - clamped(target[i]);
    squares += difference * difference;
  }
  const double error = squares / static_cast<double>(picture.size());
  return -10 * std::log10(std::max(error, kLeastError));
}

std::optional<double> ssim(std::span<const float> picture, std::span<const float> target,
                           const PictureShape& shape) {
  const auto values = static_cast<std::size_t>(shape.values());
  DTN_CHECK(picture.size() == values && target.size() == values, "pictures of ", picture.size(),
            " and ", target.size(), " values, expected ", values);
  if (std::min(shape.height, shape.width) < kWindow) return std::nullopt;
  double sum = 0;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    sum += similarity(channel_of(picture, shape, c), channel_of(target, shape, c));
  }
  const std::int64_t windows = (shape.height - kWindow + 1) * (shape.width - kWindow + 1);
  return sum / static_cast<double>(shape.channels * windows);
}

}  // namespace dtn
