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
#include "data/sample/normalization.h"
#include "data/sample/random_crop.h"
#include "data/sample/resample.h"
#include "data/sample/stage_clock.h"
#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/registries.h"
#include "dtn/data/sample_key.h"
#include "dtn/io/image.h"

namespace dtn {

// torchvision's Resize(int(image_size / crop_pct)) and CenterCrop(image_size). If height and width
// differ, the image is scaled by the larger of int(H / crop_pct) / h and int(W / crop_pct) / w.
struct EvalGeometry {
  int width = 0, height = 0;            // size of the whole resized image
  int left = 0, top = 0;                // start of the crop in it
  int crop_width = 0, crop_height = 0;  // image_size, or less if the resized image is smaller
  int pad_left = 0, pad_top = 0;        // black before the crop, if it is smaller
};
EvalGeometry eval_geometry(int width, int height, const ImageSize& size, double crop_pct);

// Returns the scale, in eighths, to decode width x height pixels of a JPEG that become to_width x
// to_height: the smallest at which both sides still have 1.5 times the pixels. 8 for other files.
int fast_decode_eighths(const ImageInfo& file, int width, int height, int to_width, int to_height);

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
            int channels, bool training, const DecodeOptions& decoding = {},
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
  int eighths_for(const ImageInfo& file, int width, int height, int to_width, int to_height) const {
    return fast_decode_ ? fast_decode_eighths(file, width, height, to_width, to_height) : 8;
  }
  Resampling crop_resampling(const SampleKey& key) const {
    return {crop_interpolation(train_interpolation_, key), resampling_.order};
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
  DecodeOptions decoding_;
};

}  // namespace dtn
