// Drops of water and splashes of mud.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "data/corrupt/families.h"
#include "data/corrupt/filters.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

struct Spatter {
  double mean, deviation, sigma, cut, strength;
  bool mud;
};

// A byte image of one channel whose border is mirrored without the edge pixel.
struct Gray {
  int height, width;
  std::vector<std::uint8_t> pixels;
  int at(int y, int x) const {
    return pixels[static_cast<std::size_t>(mirror_without_edge(y, height) * width +
                                           mirror_without_edge(x, width))];
  }
  std::size_t index(int y, int x) const { return static_cast<std::size_t>(y) * width + x; }
};

// Calls f(y, x, index) for all pixels.
template <class F>
void for_each_pixel(const Gray& gray, F&& f) {
  for (int y = 0; y < gray.height; ++y) {
    for (int x = 0; x < gray.width; ++x) f(y, x, gray.index(y, x));
  }
}

// Canny's edges with OpenCV's details: Sobel gradients of 3 x 3 with the edge pixel repeated, their
// absolute sum for magnitude, directions cut at 22.5 and 67.5 degrees.
class Canny {
 public:
  Canny(const Gray& gray, int low, int high) : gray_(gray), low_(low), high_(high) {
    const std::size_t n = gray.pixels.size();
    dx_.resize(n);
    dy_.resize(n);
    for_each_pixel(gray, [&](int y, int x, std::size_t i) { gradient(y, x, i); });
    marks_.assign(n, kNone);
    for_each_pixel(gray, [&](int y, int x, std::size_t i) { mark(y, x, i); });
    while (!strong_.empty()) {
      const std::size_t i = strong_.back();
      strong_.pop_back();
      spread(static_cast<int>(i) / gray.width, static_cast<int>(i) % gray.width);
    }
  }

  bool is_edge(std::size_t i) const { return marks_[i] == kEdge; }

 private:
  enum Mark : std::uint8_t { kNone, kWeak, kEdge };

  void gradient(int y, int x, std::size_t i) {
    const auto at = [&](int down, int right) {
      return static_cast<int>(gray_.pixels[gray_.index(std::clamp(y + down, 0, gray_.height - 1),
                                                       std::clamp(x + right, 0, gray_.width - 1))]);
    };
    const int diagonal = at(1, 1) - at(-1, -1), other = at(-1, 1) - at(1, -1);
    dx_[i] = diagonal + other + 2 * (at(0, 1) - at(0, -1));
    dy_[i] = diagonal - other + 2 * (at(1, 0) - at(-1, 0));
  }

  int magnitude(int y, int x) const {
    if (y < 0 || x < 0 || y >= gray_.height || x >= gray_.width) return 0;
    const std::size_t i = gray_.index(y, x);
    return std::abs(dx_[i]) + std::abs(dy_[i]);
  }

  // Whether it is a maximum across the edge.
  bool is_ridge(int y, int x, std::size_t i) const {
    constexpr int kTan22 = 13573;  // 2^15 tan(22.5 degrees)
    const int m = magnitude(y, x), across = std::abs(dx_[i]), down = std::abs(dy_[i]) << 15;
    const int flat = across * kTan22, steep = flat + (across << 16);
    if (down < flat) return m > magnitude(y, x - 1) && m >= magnitude(y, x + 1);
    if (down > steep) return m > magnitude(y - 1, x) && m >= magnitude(y + 1, x);
    const int s = (dx_[i] ^ dy_[i]) < 0 ? -1 : 1;
    return m > magnitude(y - 1, x - s) && m > magnitude(y + 1, x + s);
  }

  void mark(int y, int x, std::size_t i) {
    const int m = magnitude(y, x);
    if (m <= low_ || !is_ridge(y, x, i)) return;
    marks_[i] = m > high_ ? kEdge : kWeak;
    if (m > high_) strong_.push_back(i);
  }

  void spread(int y, int x) {
    for (int v = std::max(0, y - 1); v <= std::min(gray_.height - 1, y + 1); ++v) {
      for (int u = std::max(0, x - 1); u <= std::min(gray_.width - 1, x + 1); ++u) {
        const std::size_t i = gray_.index(v, u);
        if (marks_[i] != kWeak) continue;
        marks_[i] = kEdge;
        strong_.push_back(i);
      }
    }
  }

  const Gray& gray_;
  int low_, high_;
  std::vector<int> dx_, dy_;
  std::vector<std::uint8_t> marks_;
  std::vector<std::size_t> strong_;
};

// The distance to the nearest edge by the chamfer of 5 x 5, at most 20, in units of 2^-16.
std::vector<std::int32_t> edge_distance(const Gray& gray, const Canny& edges) {
  struct Step {
    int dy, dx;
    std::int32_t cost;
  };
  constexpr std::int32_t kOne = 65536, kDiagonal = 91750, kKnight = 143976;  // 1, 1.4, 2.1969
  constexpr std::int32_t kMost = 20 * kOne;
  constexpr Step kBefore[] = {{-2, -1, kKnight},   {-2, 1, kKnight}, {-1, -2, kKnight},
                              {-1, -1, kDiagonal}, {-1, 0, kOne},    {-1, 1, kDiagonal},
                              {-1, 2, kKnight},    {0, -1, kOne}};
  const int h = gray.height, w = gray.width;
  std::vector<std::int32_t> d(gray.pixels.size());
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = edges.is_edge(i) ? 0 : kMost;
  const auto relax = [&](int y, int x, int sign) {
    std::int32_t& here = d[gray.index(y, x)];
    for (const Step& step : kBefore) {
      const int v = y + sign * step.dy, u = x + sign * step.dx;
      if (v < 0 || u < 0 || v >= h || u >= w) continue;
      here = std::min(here, d[gray.index(v, u)] + step.cost);
    }
  };
  for (int y = 0; y < h; ++y) {
    for (int x = 0; x < w; ++x) relax(y, x, 1);
  }
  for (int y = h - 1; y >= 0; --y) {
    for (int x = w - 1; x >= 0; --x) relax(y, x, -1);
  }
  return d;
}

// The mean over 3 x 3 of the distances, in bytes.
Gray smooth_distance(const Gray& gray, const std::vector<std::int32_t>& d) {
  Gray out{gray.height, gray.width, std::vector<std::uint8_t>(d.size())};
  for_each_pixel(gray, [&](int y, int x, std::size_t i) {
    std::int64_t sum = 0;
    for (int v = -1; v <= 1; ++v) {
      for (int u = -1; u <= 1; ++u) {
        sum += d[gray.index(mirror_without_edge(y + v, gray.height),
                            mirror_without_edge(x + u, gray.width))];
      }
    }
    out.pixels[i] = static_cast<std::uint8_t>(sum / (9ll << 16));
  });
  return out;
}

// As OpenCV's equalizeHist: the darkest value becomes 0.
void equalize_gray(Gray& gray) {
  std::array<std::int64_t, 256> counts{};
  for (std::uint8_t v : gray.pixels) ++counts[v];
  std::size_t darkest = 0;
  while (counts[darkest] == 0) ++darkest;
  const std::int64_t others = static_cast<std::int64_t>(gray.pixels.size()) - counts[darkest];
  if (others == 0) return;
  std::array<std::uint8_t, 256> table{};
  const float scale = 255.0f / static_cast<float>(others);
  std::int64_t sum = 0;
  for (std::size_t v = darkest + 1; v < table.size(); ++v) {
    sum += counts[v];
    table[v] = static_cast<std::uint8_t>(
        std::min(std::nearbyint(static_cast<float>(sum) * scale), 255.0f));
  }
  for (std::uint8_t& v : gray.pixels) v = table[v];
}

// Light from one side, then the mean over 3 x 3, rounded.
Gray relief(const Gray& gray) {
  constexpr int kLight[3][3] = {{-2, -1, 0}, {-1, 1, 1}, {0, 1, 2}};
  Gray lit{gray.height, gray.width, std::vector<std::uint8_t>(gray.pixels.size())};
  Gray out = lit;
  for_each_pixel(gray, [&](int y, int x, std::size_t i) {
    int sum = 0;
    for (int v = -1; v <= 1; ++v) {
      for (int u = -1; u <= 1; ++u) sum += kLight[v + 1][u + 1] * gray.at(y + v, x + u);
    }
    lit.pixels[i] = static_cast<std::uint8_t>(std::clamp(sum, 0, 255));
  });
  for_each_pixel(gray, [&](int y, int x, std::size_t i) {
    int sum = 0;
    for (int v = -1; v <= 1; ++v) {
      for (int u = -1; u <= 1; ++u) sum += lit.at(y + v, x + u);
    }
    out.pixels[i] = static_cast<std::uint8_t>((sum + 4) / 9);
  });
  return out;
}

// How much water there is at each pixel, 0 .. strength.
void water_mask(const std::vector<double>& liquid, int height, int width, double strength,
                std::vector<float>& mask) {
  Gray gray{height, width, std::vector<std::uint8_t>(liquid.size())};
  for (std::size_t i = 0; i < liquid.size(); ++i) {
    gray.pixels[i] = static_cast<std::uint8_t>(static_cast<int>(liquid[i] * 255));
  }
  const Canny edges(gray, 50, 150);
  Gray distance = smooth_distance(gray, edge_distance(gray, edges));
  equalize_gray(distance);
  const Gray shade = relief(distance);
  mask.resize(liquid.size());
  float most = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = static_cast<float>(gray.pixels[i] * shade.pixels[i]);
    most = std::max(most, mask[i]);
  }
  const float scale = most > 0 ? static_cast<float>(strength) / most : 0;
  for (float& m : mask) m *= scale;
}

}  // namespace

void spatter(const Image& image, const CorruptJob& job, Image& out) {
  constexpr Spatter kSpatter[] = {{.65, .3, 4, .69, .6, false},
                                  {.65, .3, 3, .68, .6, false},
                                  {.65, .3, 2, .68, .5, false},
                                  {.65, .3, 1, .65, 1.5, true},
                                  {.67, .4, 1, .65, 1.5, true}};
  constexpr float kWater[] = {175, 238, 238}, kMud[] = {63, 42, 20};
  const Spatter& spatter = by_severity(kSpatter, job);
  CorruptScratch& s = job.scratch;
  const PlaneShape shape{image.height, image.width, 1};
  const auto pixels = static_cast<std::size_t>(shape.size());
  job.draws.normals(shape.size(), s.words, s.noise);
  s.wide.resize(pixels);
  for (std::size_t i = 0; i < pixels; ++i)
    s.wide[i] = spatter.mean + spatter.deviation * s.noise[i];
  gaussian_filter(s.wide, shape, gaussian_taps(spatter.sigma), s, s.blurred);
  for (double& v : s.blurred) v = v < spatter.cut ? 0 : v;

  if (spatter.mud) {
    for (std::size_t i = 0; i < pixels; ++i) s.wide[i] = s.blurred[i] > spatter.cut ? 1 : 0;
    gaussian_filter(s.wide, shape, gaussian_taps(spatter.strength), s, s.blurred);
    s.field.resize(pixels);
    for (std::size_t i = 0; i < pixels; ++i) {
      s.field[i] = s.blurred[i] < 0.8 ? 0.0f : static_cast<float>(s.blurred[i]);
    }
  } else {
    water_mask(s.blurred, image.height, image.width, spatter.strength, s.field);
  }
  for (std::size_t i = 0; i < pixels; ++i) {
    const float m = s.field[i], keep = spatter.mud ? 1 - m : 1.0f;
    const float* const color = spatter.mud ? kMud : kWater;
    for (std::size_t c = 0; c < 3; ++c) {
      const float value = static_cast<float>(image.pixels[3 * i + c]) * keep + m * color[c];
      out.pixels[3 * i + c] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

}  // namespace dtn::corrupt
