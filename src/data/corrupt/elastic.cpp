// Elastic transform: an affine map and a smooth random field.
#include <algorithm>
#include <array>
#include <cmath>

#include "data/corrupt/families.h"
#include "data/corrupt/filters.h"
#include "data/corrupt/kernels.h"
#include "data/sample/image_ops.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

struct Elastic {
  double alpha, sigma, shift;  // in pixels
};
constexpr Elastic kElastic[] = {{244 * 2, 244 * .7, 244 * .1},
                                {244 * 2, 244 * .08, 244 * .2},
                                {244 * .05, 244 * .01, 244 * .02},
                                {244 * .07, 244 * .01, 244 * .02},
                                {244 * .12, 244 * .01, 244 * .02}};

struct Point {
  double x = 0, y = 0;
};

// Returns the affine map of three points to three others.
AffineMatrix affine_between(const std::array<Point, 3>& from, const std::array<Point, 3>& to) {
  const double ux = from[1].x - from[0].x, uy = from[1].y - from[0].y;
  const double vx = from[2].x - from[0].x, vy = from[2].y - from[0].y;
  const double area = ux * vy - uy * vx;
  const auto solve = [&](double t0, double t1, double t2, double& p, double& q, double& r) {
    p = ((t1 - t0) * vy - (t2 - t0) * uy) / area;
    q = ((t2 - t0) * ux - (t1 - t0) * vx) / area;
    r = t0 - p * from[0].x - q * from[0].y;
  };
  AffineMatrix map;
  solve(to[0].x, to[1].x, to[2].x, map.a, map.b, map.c);
  solve(to[0].y, to[1].y, to[2].y, map.d, map.e, map.f);
  return map;
}

// Reads a value between pixels of in [height, width, 3]. `mirror` maps an index into the image.
template <class Mirror>
void read_between(const float* in, int height, int width, float x, float y, Mirror&& mirror,
                  float* out) {
  const int x0 = static_cast<int>(std::floor(x)), y0 = static_cast<int>(std::floor(y));
  const float fx = x - static_cast<float>(x0), fy = y - static_cast<float>(y0);
  const bool inside = 0 <= x0 && x0 + 1 < width && 0 <= y0 && y0 + 1 < height;
  const int left = inside ? x0 : mirror(x0, width), right = inside ? x0 + 1 : mirror(x0 + 1, width);
  const int top = inside ? y0 : mirror(y0, height),
            below = inside ? y0 + 1 : mirror(y0 + 1, height);
  const float* const a = in + 3ll * (static_cast<std::int64_t>(top) * width + left);
  const float* const b = in + 3ll * (static_cast<std::int64_t>(top) * width + right);
  const float* const c = in + 3ll * (static_cast<std::int64_t>(below) * width + left);
  const float* const d = in + 3ll * (static_cast<std::int64_t>(below) * width + right);
  for (int i = 0; i < 3; ++i) {
    const float upper = a[i] + fx * (b[i] - a[i]), lower = c[i] + fx * (d[i] - c[i]);
    out[i] = upper + fy * (lower - upper);
  }
}

// Blur in one direction with mirrored borders, as a matrix. The kernel reaches up to 512 pixels,
// several times across an image of 224, so it is folded onto the image once. Groups of four rows
// use the columns from their first to their last weight.
class FoldedBlur {
 public:
  explicit FoldedBlur(double sigma) {
    const std::vector<double> taps = gaussian_taps(sigma, 3);
    const int radius = static_cast<int>(taps.size() / 2);
    for (int i = 0; i < kSide; i += kRows) {
      std::vector<double> rows(static_cast<std::size_t>(kRows) * kSide);
      int first = kSide, end = 0;
      for (int r = 0; r < kRows; ++r) {
        for (int k = -radius; k <= radius; ++k) {
          const int at = mirror_with_edge(i + r + k, kSide);
          rows[static_cast<std::size_t>(r * kSide + at)] +=
              taps[static_cast<std::size_t>(k + radius)];
          first = std::min(first, at);
          end = std::max(end, at + 1);
        }
      }
      groups_.push_back({first, end - first, {rows.begin(), rows.end()}});
    }
  }

  // Blurs down the columns and transposes, so that two calls blur both ways. in, out [224, 224]:
  //     out[j, i] = sum over k of weights[i, k] in[k, j]
  void apply(const float* in, std::vector<float>& lines, float* out) const {
    lines.resize(static_cast<std::size_t>(kRows) * kSide);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      kernels().product32({group.weights.data() + group.first, kSide, group.count,
                           in + static_cast<std::ptrdiff_t>(group.first) * kSide},
                          kSide, lines.data());
      float* const to = out + g * kRows;
      for (int j = 0; j < kSide; ++j) {
        for (int r = 0; r < kRows; ++r)
          to[j * kSide + r] = lines[static_cast<std::size_t>(r * kSide + j)];
      }
    }
  }

 private:
  static constexpr int kSide = kCorruptedSide, kRows = 4;
  static_assert(kSide % kRows == 0);
  struct Group {
    int first, count;
    std::vector<float> weights;  // [4, 224]
  };
  std::vector<Group> groups_;
};

// Draws a field of U(-1, 1), blurs it and multiplies it by alpha.
void draw_field(const FoldedBlur& blur, const Elastic& elastic, Draws& draws, CorruptScratch& s,
                std::vector<float>& field) {
  constexpr std::size_t kPixels = static_cast<std::size_t>(kCorruptedSide) * kCorruptedSide;
  draws.words(kPixels, s.words);
  field.resize(kPixels);
  s.noise.resize(kPixels);
  for (std::size_t i = 0; i < kPixels; ++i) {
    field[i] = static_cast<float>(uniform(s.words[i], -elastic.alpha, elastic.alpha));
  }
  blur.apply(field.data(), s.line, s.noise.data());
  blur.apply(s.noise.data(), s.line, field.data());
}

AffineMatrix draw_affine(double shift, Draws& draws) {
  // Three points at a third of the side from the middle.
  const std::array<Point, 3> from = {Point{186, 186}, Point{186, 38}, Point{38, 38}};
  std::array<Point, 3> to = from;
  for (Point& p : to) {
    p.x += draws.uniform(-shift, shift);
    p.y += draws.uniform(-shift, shift);
  }
  return affine_between(to, from);  // maps output points to input points
}

}  // namespace

void elastic_transform(const Image& image, const CorruptJob& job, Image& out) {
  static const FoldedBlur blurs[] = {FoldedBlur(kElastic[0].sigma), FoldedBlur(kElastic[1].sigma),
                                     FoldedBlur(kElastic[2].sigma)};
  const Elastic& elastic = by_severity(kElastic, job);
  const FoldedBlur& blur = blurs[std::min(job.severity, 3) - 1];  // severities 3 to 5 share a blur
  CorruptScratch& s = job.scratch;
  const AffineMatrix map = draw_affine(elastic.shift, job.draws);
  draw_field(blur, elastic, job.draws, s, s.field);
  draw_field(blur, elastic, job.draws, s, s.other);

  const int height = image.height, width = image.width;
  s.noise.assign(image.pixels.begin(), image.pixels.end());
  s.plane.resize(image.pixels.size());
  float* moved = s.plane.data();
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, moved += 3) {
      read_between(s.noise.data(), height, width, static_cast<float>(map.a * x + map.b * y + map.c),
                   static_cast<float>(map.d * x + map.e * y + map.f), mirror_without_edge, moved);
    }
  }
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const std::size_t at = static_cast<std::size_t>(y) * width + x;
      std::array<float, 3> value;
      read_between(s.plane.data(), height, width, static_cast<float>(x) + s.field[at],
                   static_cast<float>(y) + s.other[at], mirror_with_edge, value.data());
      for (std::size_t c = 0; c < 3; ++c) {
        out.pixels[3 * at + c] = static_cast<std::uint8_t>(std::clamp(value[c], 0.0f, 255.0f));
      }
    }
  }
}

}  // namespace dtn::corrupt
