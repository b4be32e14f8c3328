// From a decoded image (or its file) to the float32 input of a model. Geometry and arithmetic are
// torchvision's on Pillow images, so a model sees the same numbers here and there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/sample/auto_augment.h"
#include "data/sample/erasing.h"
#include "data/sample/image_ops.h"
#include "data/sample/resample.h"
#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/registries.h"
#include "dtn/data/sample_key.h"
#include "dtn/io/image.h"

namespace dtn {

// What every preset but none does to an image first: this part of it is resized, then mirrored when
// `flip`.
struct CropBox {
  int left = 0, top = 0, width = 0, height = 0;
  bool flip = false;
  bool operator==(const CropBox&) const = default;
};

// torchvision's RandomResizedCrop.get_params: ten tries at a random area and log-uniform aspect
// ratio, then the largest central crop of an allowed ratio; and a flip with probability hflip.
CropBox sample_crop(int width, int height, const AugmentConfig& augment, const SampleKey& key);

// torchvision's Resize(int(image_size / crop_pct)) and CenterCrop(image_size). Where height and
// width are not the same, the image is scaled by the larger of int(H / crop_pct) / h and
// int(W / crop_pct) / w.
struct EvalGeometry {
  int width = 0, height = 0;            // the whole image is resized to this
  int left = 0, top = 0;                // where the crop starts in it
  int crop_width = 0, crop_height = 0;  // image_size, or less when the resized image is smaller
  int pad_left = 0, pad_top = 0;        // black before the crop when it is smaller
};
EvalGeometry eval_geometry(int width, int height, const ImageSize& size, double crop_pct);

struct Normalization {
  std::vector<float> mean, std;  // one per channel, for pixels in [0, 1]
};
// What the config says, or the usual values of its data set (ImageNet's where it has none). A
// single value serves all channels. ConfigError when the number of values is wrong or a deviation
// is not positive.
Normalization resolve_normalization(const DataConfig& data, int channels,
                                    const DatasetRegistry& datasets = dataset_registry());

// out[c, y, x] = (pixel / 255 - mean[c]) / std[c], float32 [channels, height, width]; mirrored left
// to right when `flip`.
void normalize_to_chw(const Image& image, const Normalization& normalization, bool flip,
                      float* out);

// What the stages of preparing images took, summed up.
struct StageSeconds {
  double decode = 0, resize = 0, augment = 0;
};

// Buffers of one worker thread; reused from image to image.
struct TransformWorkspace {
  Image decoded, converted, resized, padded;
  ResampleWorkspace resample;
  ImageOpsWorkspace ops;
  StageSeconds* stages = nullptr;  // where to add up the time, if anywhere
};

// An image of a transform's size and channels that is still to be mirrored, where `flip` is set,
// normalized, and erased from.
struct PreparedImage {
  const Image* image = nullptr;
  bool flip = false;
};

// A whole preparation, immutable and safe to share between threads.
//
// With data.decode `fast` (what `auto` means in training) a JPEG that is shrunk a lot is decoded at
// 1/2, 1/4 or 1/8 of its size: the smallest at which both sides still have 1.5 times the pixels
// they are resized to. Then a crop differs from what `exact` gives by 0.4 to 0.9 of 255 in the mean
// over crops, a PSNR of 46 to 52 dB and at least 31 (100 photographs of ImageNet, 5500 crops,
// image_size 32 to 224); any other crop is the same.
class Transform {
 public:
  // Training crops and flips at random unless the preset is `none`, which prepares images as for
  // evaluation; then come the policy and the colour jitter of the config (as in timm, there is no
  // jitter beside RandAugment). ConfigError for bad values.
  Transform(const DataConfig& data, const AugmentConfig& augment, const ImageSize& image_size,
            int channels, bool training, const DecodeLimits& limits = {},
            const DataRegistries& registries = data_registries());

  // Crops, resizes and augments; borders are black. The image may have 1 or 3 channels. The result
  // is `image` itself or lies in the workspace.
  PreparedImage prepare(const Image& image, const SampleKey& key,
                        TransformWorkspace& workspace) const;

  // The same from the bytes of an image file, decoding only what the crop needs. `name` is what
  // errors call the file.
  PreparedImage decode_and_prepare(std::span<const std::byte> bytes, const std::string& name,
                                   const SampleKey& key, TransformWorkspace& workspace) const;

  // Writes [channels, height, width], mirrored where asked, with noise in erasure(key).
  void normalize(const PreparedImage& prepared, const SampleKey& key, float* out) const;

  // What is erased from an image after all else, in training with augment.erase.
  std::optional<EraseBox> erasure(const SampleKey& key) const;
  bool erases() const { return erase_ > 0; }

  // Both steps at once.
  void apply(const Image& image, const SampleKey& key, TransformWorkspace& workspace,
             float* out) const {
    normalize(prepare(image, key, workspace), key, out);
  }
  void decode_and_apply(std::span<const std::byte> bytes, const std::string& name,
                        const SampleKey& key, TransformWorkspace& workspace, float* out) const {
    normalize(decode_and_prepare(bytes, name, key, workspace), key, out);
  }

  // [channels, 256]: what normalize() writes for each pixel value. Whoever looks pixels up in it,
  // on whatever device, gets the same bits.
  std::span<const float> table() const { return table_; }
  const ImageSize& image_size() const { return image_size_; }
  int channels() const { return channels_; }
  std::int64_t output_size() const {
    return static_cast<std::int64_t>(channels_) * image_size_.height * image_size_.width;
  }
  ColorMode color_mode() const { return channels_ == 1 ? ColorMode::kGray : ColorMode::kRgb; }

 private:
  // `part` holds the columns and rows `at` of a width x height image.
  const Image& prepare_eval(const Image& part, const ImageRegion& at, const EvalGeometry& geometry,
                            double width, double height, TransformWorkspace& workspace) const;

  // At what scale, in eighths, to decode `width` x `height` pixels that become to_width x
  // to_height.
  int eighths_for(const ImageInfo& file, int width, int height, int to_width, int to_height) const;
  // By what the random crop of a sample is resized.
  Interpolation crop_interpolation(const SampleKey& key) const;
  Resampling crop_resampling(const SampleKey& key) const {
    return {crop_interpolation(key), resampling_.order};
  }
  // Decode the crop, or what evaluation sees, and resize it.
  const Image& decode_crop(std::span<const std::byte> bytes, const std::string& name,
                           const ImageInfo& info, const CropBox& crop, Resampling resampling,
                           TransformWorkspace& workspace) const;
  const Image& decode_eval(std::span<const std::byte> bytes, const std::string& name,
                           const ImageInfo& info, TransformWorkspace& workspace) const;
  PreparedImage augment(PreparedImage prepared, const SampleKey& key,
                        TransformWorkspace& workspace) const;

  AugmentConfig augment_;
  Resampling resampling_;                   // of evaluation
  TrainInterpolation train_interpolation_;  // of random crops
  double crop_pct_;
  ImageSize image_size_;
  int channels_;
  bool random_, fast_decode_;
  double erase_;                                // chance
  std::vector<float> table_;                    // [channels, 256]
  std::shared_ptr<const Augmentation> policy_;  // null: none
  ColorJitter jitter_;
  DecodeLimits limits_;
};

}  // namespace dtn
