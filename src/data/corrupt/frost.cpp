#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "data/corrupt/draws.h"
#include "data/corrupt/filters.h"
#include "data/corrupt/frost_textures.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

// Target statistics of a picture, those of one of the originals.
struct IceKind {
  int height, width;
  std::array<double, 3> mean, deviation;
  double step;         // mean difference of horizontal neighbours
  double correlation;  // between channels
};

constexpr IceKind kKinds[] = {
    {600, 900, {78, 149, 166}, {27, 16, 15}, 8, .82},
    {315, 560, {201, 205, 214}, {21, 22, 23}, 8, 1},
    {350, 527, {138, 153, 165}, {28, 28, 30}, 13, 1},
    {495, 660, {112, 123, 135}, {44, 43, 42}, 17, 1},
};

using Plane = std::vector<double>;

// Shifts and scales `plane` to mean 0 and deviation 1.
void standardize(Plane& plane) {
  double sum = 0, squares = 0;
  for (double v : plane) sum += v;
  const double mean = sum / static_cast<double>(plane.size());
  for (double& v : plane) {
    v -= mean;
    squares += v * v;
  }
  const double scale = std::sqrt(static_cast<double>(plane.size()) / squares);
  for (double& v : plane) v *= scale;
}

double product_of(const Plane& a, const Plane& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum / static_cast<double>(a.size());
}

// Removes the component of `other` from `plane`. Both have deviation 1.
void part_from(const Plane& other, Plane& plane) {
  const double shared = product_of(plane, other);
  for (std::size_t i = 0; i < plane.size(); ++i) plane[i] -= shared * other[i];
  standardize(plane);
}

class IcePainter {
 public:
  IcePainter(const IceKind& kind, int number)
      : kind_(kind), draws_(0, "frost texture", number, "stand-in") {}

  Image paint() {
    Plane ice = bed();
    add_needles(ice);
    add_grain(ice);
    const PlaneShape shape{kind_.height, kind_.width, 1};
    gaussian_filter(ice, shape, gaussian_taps(0.7), scratch_, detail_);
    gaussian_filter(detail_, shape, gaussian_taps(2), scratch_, smooth_);
    for (std::size_t i = 0; i < detail_.size(); ++i) detail_[i] -= smooth_[i];
    if (kind_.correlation < 1) {
      for (std::size_t c = 0; c < 3; ++c) {
        tints_[c] = bed();
        for (std::size_t d = 0; d < c; ++d) part_from(tints_[d], tints_[c]);
      }
    }
    return match();
  }

 private:
  // Returns the sum of five octaves of random values on grids, smoothly interpolated.
  Plane bed() {
    Plane plane(static_cast<std::size_t>(kind_.height) * kind_.width);
    double amplitude = 1;
    for (int cell = 128; cell >= 8; cell /= 2, amplitude /= 2) {
      const int columns = kind_.width / cell + 2, rows = kind_.height / cell + 2;
      std::vector<std::uint32_t> words;
      draws_.words(static_cast<std::int64_t>(columns) * rows, words);
      const auto value = [&](int y, int x) {
        return uniform(words[static_cast<std::size_t>(y * columns + x)], -amplitude, amplitude);
      };
      const auto eased = [&](int at) {
        const double t = static_cast<double>(at % cell) / cell;
        return t * t * (3 - 2 * t);
      };
      for (int y = 0; y < kind_.height; ++y) {
        const double fy = eased(y);
        for (int x = 0; x < kind_.width; ++x) {
          const int v = y / cell, u = x / cell;
          const double fx = eased(x);
          const double above = value(v, u) + fx * (value(v, u + 1) - value(v, u));
          const double below = value(v + 1, u) + fx * (value(v + 1, u + 1) - value(v + 1, u));
          plane[static_cast<std::size_t>(y) * kind_.width + x] += above + fy * (below - above);
        }
      }
    }
    standardize(plane);
    return plane;
  }

  void add_needles(Plane& ice) {
    Plane needles(ice.size());
    const int count = 200 + uniform_index(draws_.word(), 201);
    for (int i = 0; i < count; ++i) {
      const double x = draws_.uniform(0, kind_.width), y = draws_.uniform(0, kind_.height);
      grow(needles, x, y, draws_.uniform(0, 2 * std::numbers::pi), draws_.uniform(.5, 1), 0);
    }
    standardize(needles);
    for (std::size_t i = 0; i < ice.size(); ++i) ice[i] += needles[i];
  }

  void add_grain(Plane& ice) {
    std::vector<std::uint32_t> words;
    draws_.words(static_cast<std::int64_t>(ice.size()), words);
    for (std::size_t i = 0; i < ice.size(); ++i) ice[i] += uniform(words[i], -.5, .5);
  }

  // Draws a walk of straight pieces that turn slightly, with side branches at 60 degrees.
  void grow(Plane& plane, double x, double y, double angle, double brightness, int depth) {
    const int pieces = depth == 0 ? 8 : 3;
    const double width = draws_.uniform(1, depth == 0 ? 3 : 2);
    for (int piece = 0; piece < pieces; ++piece) {
      angle += draws_.uniform(-.2, .2);
      const double length = draws_.uniform(6, 18) / (depth + 1);
      const double from = brightness * (pieces - piece) / pieces;
      const double to = brightness * (pieces - piece - 1) / pieces;
      const double dx = std::cos(angle), dy = std::sin(angle);
      for (double at = 0; at < length; at += 0.5) {
        stamp(plane, x + at * dx, y + at * dy, width, from + (to - from) * at / length);
      }
      x += length * dx;
      y += length * dy;
      if (depth == 2) continue;
      for (double side : {-1.0, 1.0}) {
        grow(plane, x, y, angle + side * std::numbers::pi / 3, 0.8 * to, depth + 1);
      }
    }
  }

  void stamp(Plane& plane, double x, double y, double width, double value) const {
    const double r = width / 2;
    for (int v = static_cast<int>(std::ceil(y - r)); v <= y + r; ++v) {
      for (int u = static_cast<int>(std::ceil(x - r)); u <= x + r; ++u) {
        if (v < 0 || u < 0 || v >= kind_.height || u >= kind_.width) continue;
        double& at = plane[static_cast<std::size_t>(v) * kind_.width + u];
        at = std::max(at, value);
      }
    }
  }

  // Amplifies the fine detail until the mean difference of neighbours reaches its target.
  Image match() {
    double low = 0, high = 16;
    Image image;
    for (int i = 0; i < 12; ++i) {
      const double gain = (low + high) / 2;
      image = colored(gain);
      (mean_step(image) < kind_.step ? low : high) = gain;
    }
    return image;
  }

  Image colored(double gain) {
    Plane ice(smooth_.size());
    for (std::size_t i = 0; i < ice.size(); ++i) ice[i] = smooth_[i] + gain * detail_[i];
    standardize(ice);
    Image image{kind_.width, kind_.height, 3, std::vector<std::uint8_t>(3 * ice.size())};
    const double shared = std::sqrt(kind_.correlation), own = std::sqrt(1 - kind_.correlation);
    for (std::size_t c = 0; c < 3; ++c) {
      Plane channel = ice;
      if (own > 0) {
        Plane tint = tints_[c];
        part_from(ice, tint);
        for (std::size_t i = 0; i < ice.size(); ++i) channel[i] = shared * ice[i] + own * tint[i];
      }
      store(channel, c, image);
    }
    return image;
  }

  // Clamping to bytes changes mean and deviation. A few rounds correct them.
  void store(const Plane& channel, std::size_t c, Image& image) const {
    const double n = static_cast<double>(channel.size());
    double shift = kind_.mean[c], scale = kind_.deviation[c];
    for (int round = 0; round < 4; ++round) {
      std::int64_t sum = 0, squares = 0;
      for (std::size_t i = 0; i < channel.size(); ++i) {
        const int v = static_cast<int>(std::clamp(shift + scale * channel[i] + 0.5, 0.0, 255.0));
        image.pixels[3 * i + c] = static_cast<std::uint8_t>(v);
        sum += v;
        squares += static_cast<std::int64_t>(v) * v;
      }
      const double mean = static_cast<double>(sum) / n;
      const double deviation = std::sqrt(static_cast<double>(squares) / n - mean * mean);
      scale *= kind_.deviation[c] / deviation;
      shift += kind_.mean[c] - mean;
    }
  }

  double mean_step(const Image& image) const {
    std::int64_t sum = 0;
    const std::size_t row = 3 * static_cast<std::size_t>(image.width);
    for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
      for (std::size_t i = y * row; i < y * row + row - 3; ++i) {
        sum += std::abs(image.pixels[i] - image.pixels[i + 3]);
      }
    }
    return static_cast<double>(sum) / static_cast<double>((row - 3) * image.height);
  }

  const IceKind& kind_;
  Draws draws_;
  CorruptScratch scratch_;
  Plane smooth_, detail_;
  std::array<Plane, 3> tints_;
};

}  // namespace

std::vector<Image> make_ice() {
  std::vector<Image> images;
  for (const IceKind& kind : kKinds) {
    images.push_back(IcePainter(kind, static_cast<int>(images.size())).paint());
    if (images.size() == 2) images.push_back(images.back());
  }
  return images;
}

}  // namespace dtn::corrupt
