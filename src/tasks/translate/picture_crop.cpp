#include "tasks/translate/picture_crop.h"

#include <vector>

#include "data/sample/normalization.h"
#include "data/sample/random.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kPictureFlipStream = 0x7A150001u;

// Returns the preset `light` with the areas, ratios and flips of the config.
AugmentConfig crops_of(const AugmentConfig& augment) {
  AugmentConfig crops = augment_preset(AugmentPreset::kLight);
  crops.scale_min = augment.scale_min;
  crops.scale_max = augment.scale_max;
  crops.ratio_min = augment.ratio_min;
  crops.ratio_max = augment.ratio_max;
  crops.hflip = augment.hflip;
  return crops;
}

// Returns [channels, 256]: v / 255.
std::vector<float> unit_table(std::size_t channels) {
  return normalization_table(
      {std::vector<float>(channels, 0.0f), std::vector<float>(channels, 1.0f)});
}

}  // namespace

PictureCrop::PictureCrop(const ExperimentConfig& config, int channels, Split split)
    : size_(config.model.image_size),
      channels_(channels),
      hflip_(split == Split::kTrain ? config.augment.hflip : 0),
      fast_decode_(config.data.decode == DecodeMode::kFast ||
                   (config.data.decode == DecodeMode::kAuto && split == Split::kTrain)),
      resampling_(config.data.interpolation, config.data.resample),
      decoding_{.upright = config.data.exif} {
  DTN_CHECK(channels == 1 || channels == 3, "pictures of ", channels, " channels");
  if (split != Split::kTrain || config.augment.preset == AugmentPreset::kNone) return;
  random_.emplace(config.data, crops_of(config.augment), size_, channels, true);
}

bool PictureCrop::draw_flip(const SampleKey& key) const {
  return uniform(philox_u32({key.seed, kPictureFlipStream, key.epoch}, key.sample), 0, 1) < hflip_;
}

void PictureCrop::crop(const Image& picture, const SampleKey& key, PictureCropWorkspace& ws,
                       Image& out) const {
  if (random_) {
    const PreparedImage prepared = random_->prepare(picture, key, ws.transform);
    return finish(*prepared.image, prepared.flip, ws, out);
  }
  const Image* source = &picture;
  if (picture.channels != channels_) {
    channels_ == 1 ? rgb_to_gray(picture, ws.converted) : gray_to_rgb(picture, ws.converted);
    source = &ws.converted;
  }
  finish(center_crop(*source, size_, resampling_, ws.center), draw_flip(key), ws, out);
}

void PictureCrop::decode(std::span<const std::byte> bytes, const std::string& name,
                         const SampleKey& key, PictureCropWorkspace& ws, Image& out) const {
  if (random_) {
    const PreparedImage prepared = random_->decode_and_prepare(bytes, name, key, ws.transform);
    return finish(*prepared.image, prepared.flip, ws, out);
  }
  decode_for_center_crop(bytes, name, size_, fast_decode_, decoding_, color_mode(), ws.decoded);
  finish(center_crop(ws.decoded, size_, resampling_, ws.center), draw_flip(key), ws, out);
}

void PictureCrop::load(const Sample& sample, const SampleWorkspace& sample_ws, const SampleKey& key,
                       PictureCropWorkspace& ws, Image& out) const {
  if (sample.image) return crop(*sample.image, key, ws, out);
  decode(sample.encoded, sample_ws.name, key, ws, out);
}

void PictureCrop::finish(const Image& picture, bool flip, PictureCropWorkspace& ws,
                         Image& out) const {
  out.reshape(picture.width, picture.height, picture.channels);
  out.pixels = picture.pixels;
  if (flip) flip_horizontally(out, ws.transform.ops);
}

void write_unit_pixels(const Image& picture, std::span<float> out) {
  static const std::vector<float> gray = unit_table(1), color = unit_table(3);
  DTN_CHECK(out.size() == picture.pixels.size(), "a picture of ", picture.pixels.size(),
            " values for ", out.size());
  normalize_image(picture, picture.channels == 1 ? gray : color, false, out.data());
}

}  // namespace dtn
