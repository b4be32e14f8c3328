// Snow, frost and fog.
#include <algorithm>
#include <bit>

#include "data/corrupt/families.h"
#include "data/corrupt/filters.h"
#include "data/corrupt/kernels.h"
#include "data/sample/no_contraction.h"
#include "dtn/core/check.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

struct Snow {
  float mean, deviation;
  double zoom;
  float cut;
  int radius;
  double sigma;
  float keep;
};

// Draws the flakes before they fall. Only the part that the zoom shows is drawn.
void draw_flakes(const Snow& snow, int height, int width, Draws& draws, CorruptScratch& s) {
  const ZoomAxis down = zoom_axis(height, snow.zoom), across = zoom_axis(width, snow.zoom);
  draws.normals(static_cast<std::int64_t>(down.count) * across.count, s.words, s.noise);
  s.line.resize(static_cast<std::size_t>(across.count));
  s.field.resize(static_cast<std::size_t>(width));
  s.marks.resize(static_cast<std::size_t>(height) * width);
  for (int y = 0; y < height; ++y) {
    const auto i = static_cast<std::size_t>(y);
    const float* above = s.noise.data() + static_cast<std::int64_t>(down.at[i]) * across.count;
    kernels().between(above, above + across.count, down.share[i], across.count, s.line.data());
    std::ranges::fill(s.field, 0.0f);
    kernels().add_between(s.line.data(), across.at.data(), across.share.data(), 1, width,
                          s.field.data());
    std::uint8_t* const flakes = &s.marks[i * width];
    for (int x = 0; x < width; ++x) {
      const float v = snow.mean + snow.deviation * s.field[static_cast<std::size_t>(x)];
      flakes[x] = static_cast<std::uint8_t>(v < snow.cut ? 0 : 255 * std::clamp(v, 0.0f, 1.0f));
    }
  }
}

// Side of the smallest plasma that covers the image: kPlasmaSide for 224 x 224.
int plasma_side(const Image& image) {
  const auto longer = static_cast<unsigned>(std::max({image.width, image.height, 2}));
  return static_cast<int>(std::bit_ceil(longer));
}

std::uint8_t byte_of(float v) { return static_cast<std::uint8_t>(std::clamp(v, 0.0f, 255.0f)); }

}  // namespace

void snow(const Image& image, const CorruptJob& job, Image& out) {
  constexpr Snow kSnow[] = {{.1f, .3f, 3, .5f, 10, 4, .8f},
                            {.2f, .3f, 2, .5f, 12, 4, .7f},
                            {.55f, .3f, 4, .9f, 12, 8, .7f},
                            {.55f, .3f, 4.5, .85f, 12, 8, .65f},
                            {.55f, .3f, 2.5, .85f, 12, 12, .55f}};
  const Snow& snow = by_severity(kSnow, job);
  CorruptScratch& s = job.scratch;
  const double angle = job.draws.uniform(-135, -45);
  draw_flakes(snow, image.height, image.width, job.draws, s);
  s.bytes.resize(s.marks.size());
  motion_filter(s.marks.data(), {image.height, image.width, 1}, {snow.radius, snow.sigma, angle}, s,
                s.bytes.data());
  const std::size_t pixels = s.bytes.size();
  const std::uint8_t* const flakes = s.bytes.data();
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::uint8_t* const x = &image.pixels[3 * i];
    const float gray = .299f * x[0] + .587f * x[1] + .114f * x[2];
    const float white = 1.5f * gray + 127.5f;
    const auto falling = static_cast<float>(flakes[i] + flakes[pixels - 1 - i]);
    for (int c = 0; c < 3; ++c) {
      const float v = x[c];
      out.pixels[3 * i + c] =
          byte_of(snow.keep * v + (1 - snow.keep) * std::max(v, white) + falling);
    }
  }
}

void frost(const Image& image, const CorruptJob& job, Image& out) {
  struct Blend {
    double image, frost;
  };
  constexpr Blend kBlend[] = {{1, .4}, {.8, .6}, {.7, .7}, {.65, .7}, {.6, .75}};
  DTN_CHECK(job.frost && !job.frost->images().empty(), "the corruption frost needs textures");
  const std::vector<Image>& textures = job.frost->images();
  const Image& texture = textures[static_cast<std::size_t>(
      uniform_index(job.draws.word(), static_cast<int>(textures.size())))];
  // The last possible place is never drawn.
  const int top = uniform_index(job.draws.word(), texture.height - image.height);
  const int left = uniform_index(job.draws.word(), texture.width - image.width);
  const std::int64_t row = 3ll * image.width;
  const Blend& blend = by_severity(kBlend, job);
  for (int y = 0; y < image.height; ++y) {
    const std::uint8_t* ice =
        &texture.pixels[3 * (static_cast<std::size_t>(top + y) * texture.width + left)];
    kernels().blend(&image.pixels[static_cast<std::size_t>(y * row)], ice, blend.image, blend.frost,
                    row, &out.pixels[static_cast<std::size_t>(y * row)]);
  }
}

void fog(const Image& image, const CorruptJob& job, Image& out) {
  struct Fog {
    float amount, decay;
  };
  constexpr Fog kFog[] = {{1.5f, 2}, {2, 2}, {2.5f, 1.7f}, {2.5f, 1.5f}, {3, 1.4f}};
  const Fog& fog = by_severity(kFog, job);
  CorruptScratch& s = job.scratch;
  const int side = plasma_side(image);
  draw_plasma(fog.decay, job.draws, s.words, s.plane, side);
  const float highest = *std::ranges::max_element(image.pixels) / 255.0f;
  const float scale = highest / (highest + fog.amount);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const std::size_t at = 3 * (static_cast<std::size_t>(y) * image.width + x);
      const float veil = 255 * fog.amount * s.plane[static_cast<std::size_t>(y) * side + x];
      for (std::size_t c = 0; c < 3; ++c) {
        out.pixels[at + c] = byte_of((image.pixels[at + c] + veil) * scale);
      }
    }
  }
}

}  // namespace dtn::corrupt
