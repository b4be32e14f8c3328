// Spatter: drops of water and splashes of mud.
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

// Values with a border of `margin` on all sides.
struct Padded {
  Padded(int h, int w, int border, std::int32_t value = 0)
      : height(h),
        width(w),
        margin(border),
        stride(w + 2 * border),
        values(static_cast<std::size_t>(stride) * (h + 2 * border), value) {}
  std::int32_t* row(int y) {
    return values.data() + static_cast<std::ptrdiff_t>(y + margin) * stride + margin;
  }

  int height, width, margin, stride;
  std::vector<std::int32_t> values;
};

// Fills the border. `inside` maps an index outside the image to one inside.
template <class Inside>
void fill_border(Padded& p, Inside&& inside) {
  for (int y = -p.margin; y < p.height + p.margin; ++y) {
    const std::int32_t* const from = p.row(inside(y, p.height));
    std::int32_t* const to = p.row(y);
    if (from != to) std::copy_n(from, p.width, to);
    for (int x = 1; x <= p.margin; ++x) {
      to[-x] = to[inside(-x, p.width)];
      to[p.width - 1 + x] = to[inside(p.width - 1 + x, p.width)];
    }
  }
}

template <class Value>
Padded padded(int height, int width, const Value* values) {
  Padded p(height, width, 1);
  for (int y = 0; y < height; ++y) {
    std::copy_n(values + static_cast<std::ptrdiff_t>(y) * width, width, p.row(y));
  }
  return p;
}

int repeat_edge(int i, int n) { return std::clamp(i, 0, n - 1); }

// out[y, x] = f(row of `p` above, row, row below, x)
template <class F>
std::vector<std::uint8_t> filter(Padded& p, F&& f) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(p.height) * p.width);
  std::uint8_t* to = out.data();
  for (int y = 0; y < p.height; ++y, to += p.width) {
    const std::int32_t *above = p.row(y - 1), *row = p.row(y), *below = p.row(y + 1);
    for (int x = 0; x < p.width; ++x) to[x] = static_cast<std::uint8_t>(f(above, row, below, x));
  }
  return out;
}

std::int32_t sum_of_nine(const std::int32_t* above, const std::int32_t* row,
                         const std::int32_t* below, int x) {
  return above[x - 1] + above[x] + above[x + 1] + row[x - 1] + row[x] + row[x + 1] + below[x - 1] +
         below[x] + below[x + 1];
}

// Canny's edge detector with OpenCV's details: 3 x 3 Sobel gradients with the edge pixel repeated,
// the sum of absolute gradients as magnitude, and directions divided at 22.5 and 67.5 degrees.
class Canny {
 public:
  Canny(const Image& gray, int low, int high)
      : low_(low),
        high_(high),
        dx_(gray.height, gray.width, 0),
        dy_(gray.height, gray.width, 0),
        magnitude_(gray.height, gray.width, 1),
        marks_(gray.height, gray.width, 1, kNone) {
    find_gradients(gray);
    for (int y = 0; y < gray.height; ++y) mark_row(y);
    while (!strong_.empty()) {
      std::int32_t* const at = strong_.back();
      strong_.pop_back();
      for (int down = -1; down <= 1; ++down) {
        for (int right = -1; right <= 1; ++right) strengthen(at + down * marks_.stride + right);
      }
    }
  }

  // Returns the marks of a row: kEdge for the pixels of edges.
  const std::int32_t* row(int y) { return marks_.row(y); }
  enum Mark : std::int32_t { kNone, kWeak, kEdge };

 private:
  void find_gradients(const Image& gray) {
    Padded p = padded(gray.height, gray.width, gray.pixels.data());
    fill_border(p, repeat_edge);
    for (int y = 0; y < gray.height; ++y) {
      const std::int32_t *a = p.row(y - 1), *b = p.row(y), *c = p.row(y + 1);
      std::int32_t *dx = dx_.row(y), *dy = dy_.row(y), *magnitude = magnitude_.row(y);
      for (int x = 0; x < gray.width; ++x) {
        dx[x] = a[x + 1] - a[x - 1] + 2 * (b[x + 1] - b[x - 1]) + c[x + 1] - c[x - 1];
        dy[x] = c[x - 1] - a[x - 1] + 2 * (c[x] - a[x]) + c[x + 1] - a[x + 1];
        magnitude[x] = std::abs(dx[x]) + std::abs(dy[x]);
      }
    }
  }

  void mark_row(int y) {
    const std::int32_t* const m = magnitude_.row(y);
    std::int32_t* const marks = marks_.row(y);
    for (int x = 0; x < magnitude_.width; ++x) {
      if (m[x] <= low_ || !is_ridge(m + x, dx_.row(y)[x], dy_.row(y)[x])) continue;
      marks[x] = m[x] > high_ ? kEdge : kWeak;
      if (m[x] > high_) strong_.push_back(marks + x);
    }
  }

  // Returns true if the magnitude is a maximum across the edge.
  bool is_ridge(const std::int32_t* m, int dx, int dy) const {
    constexpr int kTan22 = 13573;  // 2^15 tan(22.5 degrees)
    const int across = std::abs(dx), down = std::abs(dy) << 15, stride = magnitude_.stride;
    const int flat = across * kTan22, steep = flat + (across << 16);
    if (down < flat) return *m > m[-1] && *m >= m[1];
    if (down > steep) return *m > m[-stride] && *m >= m[stride];
    const int s = (dx ^ dy) < 0 ? -1 : 1;
    return *m > m[-stride - s] && *m > m[stride + s];
  }

  void strengthen(std::int32_t* mark) {
    if (*mark != kWeak) return;  // the border is kNone
    *mark = kEdge;
    strong_.push_back(mark);
  }

  int low_, high_;
  Padded dx_, dy_, magnitude_, marks_;
  std::vector<std::int32_t*> strong_;
};

// Returns the distance to the nearest edge by the 5 x 5 chamfer, at most 20, in units of 2^-16.
Padded edge_distance(const Image& gray, Canny& edges) {
  constexpr std::int32_t kOne = 65536, kDiagonal = 91750, kKnight = 143976;  // 1, 1.4, 2.1969
  constexpr std::int32_t kMax = 20 * kOne;
  Padded d(gray.height, gray.width, 2, kMax);
  // Updates a distance from the pixels before it, in the direction of `sign`.
  const auto relax = [stride = d.stride](std::int32_t* at, int sign) {
    const std::int32_t* const one = at - sign * stride;
    const std::int32_t* const two = one - sign * stride;
    const std::int32_t knight =
        std::min(std::min(two[-1], two[1]), std::min(one[-2], one[2])) + kKnight;
    const std::int32_t diagonal = std::min(one[-1], one[1]) + kDiagonal;
    const std::int32_t straight = std::min(one[0], at[-sign]) + kOne;
    *at = std::min(std::min(*at, straight), std::min(diagonal, knight));
  };
  for (int y = 0; y < d.height; ++y) {
    const std::int32_t* const marks = edges.row(y);
    std::int32_t* const row = d.row(y);
    for (int x = 0; x < d.width; ++x) {
      if (marks[x] == Canny::kEdge) row[x] = 0;
      relax(row + x, 1);
    }
  }
  for (int y = d.height - 1; y >= 0; --y) {
    for (int x = d.width - 1; x >= 0; --x) relax(d.row(y) + x, -1);
  }
  return d;
}

// Equalizes like OpenCV's equalizeHist: the darkest value becomes 0.
void equalize_gray(std::vector<std::uint8_t>& pixels) {
  std::array<std::int64_t, 256> counts{};
  for (std::uint8_t v : pixels) ++counts[v];
  std::size_t darkest = 0;
  while (counts[darkest] == 0) ++darkest;
  const std::int64_t others = static_cast<std::int64_t>(pixels.size()) - counts[darkest];
  if (others == 0) return;
  std::array<std::uint8_t, 256> table{};
  const float scale = 255.0f / static_cast<float>(others);
  std::int64_t sum = 0;
  for (std::size_t v = darkest + 1; v < table.size(); ++v) {
    sum += counts[v];
    const float value = std::nearbyint(static_cast<float>(sum) * scale);
    table[v] = static_cast<std::uint8_t>(std::min(value, 255.0f));
  }
  for (std::uint8_t& v : pixels) v = table[v];
}

// Returns the apparent depth of the water: the distance to the nearest edge, smoothed and
// equalized, then lit from one side and smoothed again.
std::vector<std::uint8_t> shade_of(const Image& gray) {
  Canny edges(gray, 50, 150);
  Padded distance = edge_distance(gray, edges);
  fill_border(distance, mirror_without_edge);
  std::vector<std::uint8_t> shade =
      filter(distance, [](auto... rows) { return sum_of_nine(rows...) / (9 << 16); });
  equalize_gray(shade);
  Padded p = padded(gray.height, gray.width, shade.data());
  fill_border(p, mirror_without_edge);
  shade = filter(p, [](const auto* a, const auto* b, const auto* c, int x) {
    const int light = -2 * a[x - 1] - a[x] - b[x - 1] + b[x] + b[x + 1] + c[x] + 2 * c[x + 1];
    return std::clamp(light, 0, 255);
  });
  p = padded(gray.height, gray.width, shade.data());
  fill_border(p, mirror_without_edge);
  return filter(p, [](auto... rows) { return (sum_of_nine(rows...) + 4) / 9; });
}

// Computes the amount of water at each pixel, 0 .. strength.
void water_mask(const std::vector<double>& liquid, int height, int width, double strength,
                std::vector<float>& mask) {
  Image gray;
  gray.reshape(width, height, 1);
  for (std::size_t i = 0; i < liquid.size(); ++i) {
    gray.pixels[i] = static_cast<std::uint8_t>(static_cast<int>(liquid[i] * 255));
  }
  const std::vector<std::uint8_t> shade = shade_of(gray);
  mask.resize(liquid.size());
  float most = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = static_cast<float>(gray.pixels[i] * shade[i]);
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
