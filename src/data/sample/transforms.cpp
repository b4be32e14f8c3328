#include "data/sample/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/sample/random.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

ColorJitter jitter_for(const AugmentConfig& augment, bool training) {
  const bool rand = augment.policy == "rand" || augment.policy.starts_with("rand-");
  const bool unused = !training || rand;
  const double strength = unused ? 0 : augment.color_jitter;
  return {strength, strength, strength};
}

// Centres `image` on black.
void pad_image(const Image& image, const EvalGeometry& g, const ImageSize& size, Image& out) {
  out.reshape(size.width, size.height, image.channels);
  std::ranges::fill(out.pixels, std::uint8_t{0});
  const auto row = static_cast<std::size_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y) {
    const std::size_t to =
        (static_cast<std::size_t>(g.pad_top + y) * size.width + g.pad_left) * image.channels;
    std::memcpy(&out.pixels[to], &image.pixels[static_cast<std::size_t>(y) * row], row);
  }
}

ResizeWindow eval_window(const EvalGeometry& g) {
  return {g.width, g.height, {g.left, g.top, g.left + g.crop_width, g.top + g.crop_height}};
}

// Crops or centres one side of the resized image.
void place_side(int resized, int image_size, int& first, int& count, int& pad) {
  count = std::min(resized, image_size);
  pad = (image_size - count) / 2;
  first = resized > image_size ? round_even((resized - image_size) / 2.0) : 0;
}

}  // namespace

// Tries only the scales that libjpeg-turbo has vector code for. With 1.25 times the pixels, the
// result is 2 to 4 dB worse and hardly cheaper.
int fast_decode_eighths(const ImageInfo& file, int width, int height, int to_width, int to_height) {
  const auto holds = [](int side, int eighths, int to) {
    return std::int64_t{2} * side * eighths >= std::int64_t{3} * 8 * to;
  };
  int eighths = 8;
  if (!file.scalable) return eighths;
  while (eighths > 1 && holds(width, eighths / 2, to_width) &&
         holds(height, eighths / 2, to_height))
    eighths /= 2;
  return eighths;
}

EvalGeometry eval_geometry(int width, int height, const ImageSize& size, double crop_pct) {
  DTN_CHECK(width > 0 && height > 0, "cannot resize an image of ", width, " x ", height);
  const auto wanted_h = static_cast<std::int64_t>(size.height / crop_pct);
  const auto wanted_w = static_cast<std::int64_t>(size.width / crop_pct);
  // The side that has to grow the most, or shrink the least, gets the wanted size.
  const bool by_width = wanted_w * height >= wanted_h * width;
  const std::int64_t exact = by_width ? wanted_w : wanted_h;
  const double other = std::trunc(static_cast<double>(exact * (by_width ? height : width)) /
                                  (by_width ? width : height));
  if (other > 1 << 30)
    throw DataError(
        cat("an image of ", width, " x ", height, " pixels is too elongated to resize"));
  EvalGeometry g;
  g.width = static_cast<int>(by_width ? exact : static_cast<std::int64_t>(other));
  g.height = static_cast<int>(by_width ? static_cast<std::int64_t>(other) : exact);
  place_side(g.width, size.width, g.left, g.crop_width, g.pad_left);
  place_side(g.height, size.height, g.top, g.crop_height, g.pad_top);
  return g;
}

Transform::Transform(const DataConfig& data, const AugmentConfig& augment,
                     const ImageSize& image_size, int channels, bool training,
                     const DecodeOptions& decoding, const DataRegistries& registries)
    : augment_(augment),
      resampling_(data.interpolation, data.resample),
      train_interpolation_(train_interpolation_of(data)),
      crop_pct_(data.crop_pct),
      image_size_(image_size),
      channels_(channels),
      random_(training && augment.preset != AugmentPreset::kNone),
      fast_decode_(data.decode == DecodeMode::kFast ||
                   (data.decode == DecodeMode::kAuto && training)),
      erase_(training ? augment.erase : 0),
      jitter_(jitter_for(augment, training)),
      decoding_(decoding) {
  decoding_.upright = data.exif;
  const int least = std::min(image_size.height, image_size.width);
  if (least < 1 || std::max(image_size.height, image_size.width) > 16384)
    throw ConfigError(cat("model.image_size ", image_size, " must lie in 1 .. 16384"));
  // Below 1/16 a resized image would be needlessly large, so the value is probably a mistake.
  if (!(crop_pct_ >= 1.0 / 16 && crop_pct_ <= 16) || least / crop_pct_ < 1)
    throw ConfigError(cat("data.crop_pct ", crop_pct_, " must lie in 1/16 .. 16"));
  check_augment(augment);
  // Tensors with other numbers of channels are no pixels; nothing here changes them.
  if (channels != 1 && channels != 3) return;
  const Normalization normalization = resolve_normalization(data, channels, registries.datasets);
  table_ = normalization_table(normalization);
  if (!training) return;
  policy_ =
      registries.augmentations.of(augment.policy)
          .make(augment.policy, {crop_interpolation(train_interpolation_, {}), normalization.mean,
                                 train_interpolation_ == TrainInterpolation::kRandom});
}

PreparedImage Transform::prepare(const Image& image, const SampleKey& key,
                                 TransformWorkspace& ws) const {
  StageClock clock(ws.stages);
  const Image* source = &image;
  if (image.channels != channels_) {
    channels_ == 1 ? rgb_to_gray(image, ws.converted) : gray_to_rgb(image, ws.converted);
    source = &ws.converted;
  }
  PreparedImage prepared{source, false};
  if (random_) {
    const CropBox box = sample_crop(image.width, image.height, augment_, key);
    prepared.flip = box.flip;
    const bool whole = box.width == image_size_.width && box.height == image_size_.height &&
                       box.width == image.width && box.height == image.height;
    if (!whole) {
      resize(crop_view(view(*source), box.left, box.top, box.width, box.height), image_size_.width,
             image_size_.height, crop_resampling(key), ws.resample, ws.resized);
      prepared.image = &ws.resized;
    }
  } else {
    const ImageRegion all{0, 0, image.width, image.height};
    const EvalGeometry g = eval_geometry(image.width, image.height, image_size_, crop_pct_);
    prepared.image = &prepare_eval(*source, all, g, image.width, image.height, ws);
  }
  clock.end(&StageSeconds::resize);
  return augment(prepared, key, ws);
}

const Image& Transform::prepare_eval(const Image& part, const ImageRegion& at,
                                     const EvalGeometry& g, double width, double height,
                                     TransformWorkspace& ws) const {
  if (part.width == image_size_.width && part.height == image_size_.height && g.width == width &&
      g.height == height)  // the part is the crop
    return part;
  resize_window(view(part), at, width, height, eval_window(g), resampling_, ws.resample,
                ws.resized);
  if (g.crop_width == image_size_.width && g.crop_height == image_size_.height) return ws.resized;
  pad_image(ws.resized, g, image_size_, ws.padded);
  return ws.padded;
}

const Image& Transform::decode_crop(std::span<const std::byte> bytes, const std::string& name,
                                    const ImageInfo& info, const CropBox& crop,
                                    Resampling resampling, TransformWorkspace& ws) const {
  StageClock clock(ws.stages);
  const int eighths =
      eighths_for(info, crop.width, crop.height, image_size_.width, image_size_.height);
  const ImageRegion region{crop.left, crop.top, crop.left + crop.width, crop.top + crop.height};
  decode_image_scaled(bytes, name, region, eighths, ws.decoded, decoding_, color_mode());
  clock.end(&StageSeconds::decode);
  resize_crop({&ws.decoded, region, eighths}, region, image_size_.width, image_size_.height,
              resampling, ws.resample, ws.resized);
  clock.end(&StageSeconds::resize);
  return ws.resized;
}

const Image& Transform::decode_eval(std::span<const std::byte> bytes, const std::string& name,
                                    const ImageInfo& info, TransformWorkspace& ws) const {
  StageClock clock(ws.stages);
  const EvalGeometry g = eval_geometry(info.width, info.height, image_size_, crop_pct_);
  const int eighths = eighths_for(info, info.width, info.height, g.width, g.height);
  const double width = info.width * eighths / 8.0, height = info.height * eighths / 8.0;
  const ImageRegion need =
      source_region(width, height, eval_window(g), resampling_.filter, ws.resample);
  const int step = 8 / eighths;
  const ImageRegion region{need.x0 * step, need.y0 * step, std::min(need.x1 * step, info.width),
                           std::min(need.y1 * step, info.height)};
  decode_image_scaled(bytes, name, region, eighths, ws.decoded, decoding_, color_mode());
  clock.end(&StageSeconds::decode);
  const Image& image = prepare_eval(ws.decoded, need, g, width, height, ws);
  clock.end(&StageSeconds::resize);
  return image;
}

PreparedImage Transform::decode_and_prepare(std::span<const std::byte> bytes,
                                            const std::string& name, const SampleKey& key,
                                            TransformWorkspace& ws) const {
  const ImageInfo info = read_image_info(bytes, name, decoding_);
  if (!random_) return augment({&decode_eval(bytes, name, info, ws), false}, key, ws);
  const CropBox crop = sample_crop(info.width, info.height, augment_, key);
  return augment({&decode_crop(bytes, name, info, crop, crop_resampling(key), ws), crop.flip}, key,
                 ws);
}

// Mirrors the image first and not during normalization, since the order matters for some
// operations. An image that must not change, such as one of the data set, is copied.
PreparedImage Transform::augment(PreparedImage prepared, const SampleKey& key,
                                 TransformWorkspace& ws) const {
  if (!policy_ && !jitter_.active()) return prepared;
  StageClock clock(ws.stages);
  const bool by_policy = policy_ && policy_->concerns(key);
  const AugmentDraw jitter = jitter_.draw(key);
  if (!by_policy && jitter.count == 0) return prepared;
  if (prepared.image != &ws.resized) ws.resized = *prepared.image;
  if (prepared.flip) flip_horizontally(ws.resized, ws.ops);
  if (by_policy) policy_->apply(ws.resized, key, ws.ops);
  apply_steps(jitter, {}, ws.resized, ws.ops);
  clock.end(&StageSeconds::augment);
  return {&ws.resized, false};
}

void Transform::normalize(const PreparedImage& prepared, const SampleKey& key, float* out) const {
  normalize_image(*prepared.image, table_, prepared.flip, out);
  if (const auto box = erasure(key)) {
    erase(*box, channels_, image_size_.width, image_size_.height, out);
  }
}

std::optional<EraseBox> Transform::erasure(const SampleKey& key) const {
  if (!erases()) return std::nullopt;
  return sample_erase(image_size_.width, image_size_.height, erase_, key);
}

}  // namespace dtn
