#include "data/sample/views.h"

#include <algorithm>
#include <utility>

#include "data/sample/random.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

// Streams of random numbers: one for the crop and one for the colours of each view.
constexpr std::uint32_t kViewCropStream = 0xA06E1000u, kViewColorStream = 0xA06E2000u;
constexpr int kMaxViews = 0x1000;

// Groups of four random words for the colours of a view.
enum ViewWords : std::uint64_t { kChances, kOrder, kFactors, kViewGroups };

constexpr double kMinSigma = 0.1, kMaxSigma = 2.0;
constexpr int kSolarizeThreshold = 128;

std::uint32_t stream_of(std::uint32_t first, int view) {
  DTN_CHECK(0 <= view && view < kMaxViews, "view ", view, " is not below ", kMaxViews);
  return first + static_cast<std::uint32_t>(view);
}

// Draws a random order and, for each property, a random change.
void draw_jitter(const std::array<double, 4>& ranges, const Philox4& order, const Philox4& factors,
                 ViewDraw& draw) {
  for (int i = 3; i > 0; --i) {
    std::swap(draw.order[static_cast<std::size_t>(i)],
              draw.order[static_cast<std::size_t>(uniform_index(order.v[i], i + 1))]);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    draw.factors[i] = uniform(factors.v[i], std::max(0.0, 1 - ranges[i]), 1 + ranges[i]);
  }
  draw.hue = uniform(factors.v[3], -ranges[3], ranges[3]);
}

void change(ColorProperty property, const ViewDraw& draw, Image& image) {
  switch (property) {
    case ColorProperty::kBrightness: return adjust_brightness(image, draw.factors[0]);
    case ColorProperty::kContrast: return adjust_contrast(image, draw.factors[1]);
    case ColorProperty::kSaturation: return adjust_color(image, draw.factors[2]);
    case ColorProperty::kHue:
      if (draw.hue) adjust_hue(image, *draw.hue);
  }
}

}  // namespace

ViewDraw draw_view(const ViewAugment& augment, int width, int height, const SampleKey& key,
                   int view) {
  const CropBox box =
      sample_crop(width, height, augment.crop, key, stream_of(kViewCropStream, view));
  const PhiloxKey colors{key.seed, stream_of(kViewColorStream, view), key.epoch};
  const auto words = [&](ViewWords group) {
    return philox_group(colors, key.sample * kViewGroups + group);
  };
  const Philox4 chances = words(kChances), order = words(kOrder);
  const auto happens = [&](int i, double chance) { return uniform(chances.v[i], 0, 1) < chance; };
  ViewDraw draw;
  draw.crop = {box.left, box.top, box.left + box.width, box.top + box.height};
  draw.flip = box.flip;
  const bool jitters = std::ranges::any_of(augment.jitter, [](double range) { return range > 0; });
  if (jitters && happens(0, augment.jitter_chance)) {
    draw_jitter(augment.jitter, order, words(kFactors), draw);
  }
  draw.gray = happens(1, augment.gray);
  if (happens(2, augment.blur)) draw.sigma = uniform(order.v[0], kMinSigma, kMaxSigma);
  draw.solarize = happens(3, augment.solarize);
  return draw;
}

Interpolation view_interpolation(TrainInterpolation interpolation, const SampleKey& key, int view) {
  return crop_interpolation(interpolation, key, stream_of(kViewCropStream, view));
}

void apply(const ViewDraw& draw, const Image& image, const ImageSize& size, const Resampling& how,
           ResampleWorkspace& resample, ImageOpsWorkspace& ops, Image& out) {
  const DecodedPart whole{&image, {0, 0, image.width, image.height}};
  resize_crop(whole, draw.crop, size.width, size.height, how, resample, out);
  if (draw.flip) flip_horizontally(out, ops);
  apply_colors(draw, out, ops);
}

void apply_colors(const ViewDraw& draw, Image& image, ImageOpsWorkspace& ops) {
  const bool jitters = draw.hue || draw.factors != std::array<double, 3>{1, 1, 1};
  if (jitters) {
    for (const ColorProperty property : draw.order) change(property, draw, image);
  }
  if (draw.gray) to_grayscale(image);
  if (draw.sigma > 0) gaussian_blur(image, draw.sigma, ops);
  if (draw.solarize) solarize(image, kSolarizeThreshold);
}

}  // namespace dtn
