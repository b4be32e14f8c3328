// Converts a decoded image (or its file) to the float32 input of a model. Geometry and arithmetic
// are torchvision's on Pillow images, so a model sees the same numbers in both.
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

// First step of every preset but `none`: this part of the image is resized, then mirrored if
// `flip`.
struct CropBox {
  int left = 0, top = 0, width = 0, height = 0;
  bool flip = false;
  bool operator==(const CropBox&) const = default;
};

// Draws a flip with probability hflip, and a crop as torchvision's RandomResizedCrop.get_params:
// ten tries at a random area and log-uniform aspect ratio, then the largest central crop of an
// allowed ratio.
CropBox sample_crop(int width, int height, const AugmentConfig& augment, const SampleKey& key);

// torchvision's Resize(int(image_size / crop_pct)) and CenterCrop(image_size). If height and width
// differ, the image is scaled by the larger of int(H / crop_pct) / h and int(W / crop_pct) / w.
struct EvalGeometry {
  int width = 0, height = 0;            // size of the whole resized image
  int left = 0, top = 0;                // start of the crop in it
  int crop_width = 0, crop_height = 0;  // image_size, or less if the resized image is smaller
  int pad_left = 0, pad_top = 0;        // black before the crop, if it is smaller
};
EvalGeometry eval_geometry(int width, int height, const ImageSize& size, double crop_pct);

struct Normalization {
  std::vector<float> mean, std;  // one per channel, for pixels in [0, 1]
};
// Returns the values of the config, or the usual values of its data set (ImageNet's if it has
// none). A single value serves all channels. Throws ConfigError if the number of values is wrong or
// a deviation is not positive.
Normalization resolve_normalization(const DataConfig& data, int channels,
                                    const DatasetRegistry& datasets = dataset_registry());

// Total time of each stage of preparing images; seconds.
struct StageSeconds {
  double decode = 0, resize = 0, augment = 0;
};

// Buffers of one worker thread; reused from image to image.
struct TransformWorkspace {
  Image decoded, converted, resized, padded;
  ResampleWorkspace resample;
  ImageOpsWorkspace ops;
  StageSeconds* stages = nullptr;  // totals to add to, or null
};

// An image of a transform's size and channels. It is still to be mirrored (if `flip` is set),
// normalized, and erased from.
struct PreparedImage {
  const Image* image = nullptr;
  bool flip = false;
};

// A complete preparation of images. Immutable and safe to share between threads.
//
// With data.decode `fast` (the meaning of `auto` in training), a JPEG that is shrunk a lot is
// decoded at 1/2, 1/4 or 1/8 of its size. The scale is the smallest at which both sides still have
// 1.5 times the pixels that they are resized to. A crop then differs from that of `exact` by 0.4 to
// 0.9 of 255 in the mean over crops, a PSNR of 46 to 52 dB; the lowest PSNR is 31 dB (100
// photographs of ImageNet, 5500 crops, image_size 32 to 224). Any other crop is the same.
class Transform {
 public:
  // Training crops and flips at random, except with the preset `none`, which prepares images as for
  // evaluation. Then follow the policy and the colour jitter of the config (as in timm, RandAugment
  // replaces the jitter). Throws ConfigError for bad values.
  Transform(const DataConfig& data, const AugmentConfig& augment, const ImageSize& image_size,
            int channels, bool training, const DecodeLimits& limits = {},
            const DataRegistries& registries = data_registries());

  // Crops, resizes and augments; borders are black. The image may have 1 or 3 channels. The result
  // is `image` itself or lies in the workspace.
  PreparedImage prepare(const Image& image, const SampleKey& key,
                        TransformWorkspace& workspace) const;

  // The same from the bytes of an image file; decodes only what the crop needs. `name` is the
  // file's name in errors.
  PreparedImage decode_and_prepare(std::span<const std::byte> bytes, const std::string& name,
                                   const SampleKey& key, TransformWorkspace& workspace) const;

  // Writes float32 [channels, height, width], mirrored if required, with noise in erasure(key):
  //     out[c, y, x] = (pixel / 255 - mean[c]) / std[c]
  void normalize(const PreparedImage& prepared, const SampleKey& key, float* out) const;

  // Returns the box that is erased after all other steps, in training with augment.erase.
  std::optional<EraseBox> erasure(const SampleKey& key) const;
  bool erases() const { return erase_ > 0; }

  // [channels, 256]: the value that normalize() writes for each pixel value. A look-up in this
  // table gives the same bits on any device.
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

  // Returns the scale, in eighths, to decode `width` x `height` pixels that become to_width x
  // to_height.
  int eighths_for(const ImageInfo& file, int width, int height, int to_width, int to_height) const;
  // Returns the filter that resizes the random crop of a sample.
  Interpolation crop_interpolation(const SampleKey& key) const;
  Resampling crop_resampling(const SampleKey& key) const {
    return {crop_interpolation(key), resampling_.order};
  }
  // Decode the crop, or the part that evaluation sees, and resize it.
  const Image& decode_crop(std::span<const std::byte> bytes, const std::string& name,
                           const ImageInfo& info, const CropBox& crop, Resampling resampling,
                           TransformWorkspace& workspace) const;
  const Image& decode_eval(std::span<const std::byte> bytes, const std::string& name,
                           const ImageInfo& info, TransformWorkspace& workspace) const;
  PreparedImage augment(PreparedImage prepared, const SampleKey& key,
                        TransformWorkspace& workspace) const;

  AugmentConfig augment_;
  Resampling resampling_;                   // for evaluation
  TrainInterpolation train_interpolation_;  // for random crops
  double crop_pct_;
  ImageSize image_size_;
  int channels_;
  bool random_, fast_decode_;
  double erase_;                                // probability
  std::vector<float> table_;                    // [channels, 256]
  std::shared_ptr<const Augmentation> policy_;  // null: none
  ColorJitter jitter_;
  DecodeLimits limits_;
};

}  // namespace dtn
