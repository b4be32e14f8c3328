// Gaussian, glass and motion blur, and blur by zooming in while the shutter is open.
#include <algorithm>
#include <array>
#include <cstring>

#include "data/corrupt/families.h"
#include "data/corrupt/filters.h"
#include "data/corrupt/kernels.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

PlaneShape shape_of(const Image& image) { return {image.height, image.width, image.channels}; }

// Converts bytes to [0, 1].
void to_wide(const std::vector<std::uint8_t>& bytes, std::vector<double>& out) {
  static const std::array<double, 256> table = [] {
    std::array<double, 256> t;
    for (std::size_t k = 0; k < t.size(); ++k) t[k] = static_cast<double>(k) / 255;
    return t;
  }();
  out.resize(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) out[i] = table[bytes[i]];
}

void blur_bytes(const std::vector<std::uint8_t>& in, const PlaneShape& shape, double sigma,
                CorruptScratch& s, std::vector<std::uint8_t>& out) {
  to_wide(in, s.wide);
  gaussian_filter(s.wide, shape, gaussian_taps(sigma), s, s.blurred);
  out.resize(s.blurred.size());
  kernels().to_bytes(s.blurred.data(), shape.size(), out.data());
}

struct Glass {
  double sigma;
  int reach, times;
};

// Replaces each pixel by a near one. The original means to swap the two, but its arrays are views
// and it copies. Pixels are therefore duplicated, and later pixels read earlier results.
void shuffle(const Glass& glass, const PlaneShape& shape, Draws& draws, CorruptScratch& s,
             std::uint8_t* pixels) {
  const int d = glass.reach, choices = 4 * d * d;
  const std::int64_t row = shape.row();
  std::vector<std::int64_t> offsets;
  for (int dy = -d; dy < d; ++dy) {
    for (int dx = -d; dx < d; ++dx) offsets.push_back(dy * row + 3 * dx);
  }
  for (int time = 0; time < glass.times; ++time) {
    draws.words(static_cast<std::int64_t>(shape.height - 2 * d) * (shape.width - 2 * d), s.words);
    const std::uint32_t* word = s.words.data();
    for (int y = shape.height - d; y > d; --y) {
      for (int x = shape.width - d; x > d; --x) {
        std::uint8_t* const to = pixels + y * row + 3 * x;
        const std::uint8_t* from =
            to + offsets[static_cast<std::size_t>(uniform_index(*word++, choices))];
        const std::array<std::uint8_t, 3> value{from[0], from[1], from[2]};
        std::memcpy(to, value.data(), value.size());
      }
    }
  }
}

struct Zooms {
  double step;
  int count;
};

// Adds the image, zoomed into its middle, to `sum` [height, width, 3].
void add_zoomed(const std::vector<float>& image, const PlaneShape& shape, double factor,
                CorruptScratch& s, std::vector<float>& sum) {
  const ZoomAxis down = zoom_axis(shape.height, factor), across = zoom_axis(shape.width, factor);
  std::vector<std::int32_t> at;
  std::vector<float> share;
  for (std::size_t x = 0; x < across.at.size(); ++x) {
    for (int c = 0; c < 3; ++c) {
      at.push_back(3 * across.at[x] + c);
      share.push_back(across.share[x]);
    }
  }
  const std::int64_t row = shape.row(), used = 3ll * across.count;
  s.line.resize(static_cast<std::size_t>(used));
  for (int y = 0; y < shape.height; ++y) {
    const auto i = static_cast<std::size_t>(y);
    const float* above = image.data() + (down.first + down.at[i]) * row + 3ll * across.first;
    kernels().between(above, above + row, down.share[i], used, s.line.data());
    kernels().add_between(s.line.data(), at.data(), share.data(), 3, row, sum.data() + y * row);
  }
}

}  // namespace

void gaussian_blur(const Image& image, const CorruptJob& job, Image& out) {
  constexpr double kSigma[] = {1, 2, 3, 4, 6};
  blur_bytes(image.pixels, shape_of(image), by_severity(kSigma, job), job.scratch, out.pixels);
}

void glass_blur(const Image& image, const CorruptJob& job, Image& out) {
  constexpr Glass kGlass[] = {{.7, 1, 2}, {.9, 2, 1}, {1, 2, 3}, {1.1, 3, 2}, {1.5, 4, 2}};
  const Glass& glass = by_severity(kGlass, job);
  CorruptScratch& s = job.scratch;
  const PlaneShape shape = shape_of(image);
  blur_bytes(image.pixels, shape, glass.sigma, s, s.bytes);
  shuffle(glass, shape, job.draws, s, s.bytes.data());
  blur_bytes(s.bytes, shape, glass.sigma, s, out.pixels);
}

void motion_blur(const Image& image, const CorruptJob& job, Image& out) {
  constexpr Motion kMotion[] = {{10, 3, 0}, {15, 5, 0}, {15, 8, 0}, {15, 12, 0}, {20, 15, 0}};
  Motion motion = by_severity(kMotion, job);
  motion.degrees = job.draws.uniform(-45, 45);
  motion_filter(image.pixels.data(), shape_of(image), motion, job.scratch, out.pixels.data());
}

void zoom_blur(const Image& image, const CorruptJob& job, Image& out) {
  constexpr Zooms kZooms[] = {{.01, 12}, {.01, 16}, {.02, 11}, {.02, 13}, {.03, 11}};
  const Zooms& zooms = by_severity(kZooms, job);
  const PlaneShape shape{image.height, image.width, 3};
  CorruptScratch& s = job.scratch;
  s.plane.assign(image.pixels.begin(), image.pixels.end());
  s.field = s.plane;
  const double step = (1 + zooms.step) - 1;  // as in numpy's arange
  for (int i = 0; i < zooms.count; ++i) add_zoomed(s.plane, shape, 1 + i * step, s, s.field);
  const auto images = static_cast<float>(zooms.count + 1);
  for (std::size_t i = 0; i < out.pixels.size(); ++i) {
    out.pixels[i] = static_cast<std::uint8_t>(std::min(s.field[i] / images, 255.0f));
  }
}

}  // namespace dtn::corrupt
