// Crops and mirrors the pictures of the task translate.
//
// An evaluation, and training with augment.preset: none, take the centre of the picture by
// center_crop(): a picture of the model's size keeps its pixels. Training with augment.preset:
// light takes a random part, as torchvision's RandomResizedCrop. Training mirrors the crop with the
// probability augment.hflip. Crop and mirroring depend on the key and the size of the picture
// alone, so both pictures of a pair are treated alike.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "data/sample/center_crop.h"
#include "data/sample/transforms.h"
#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Buffers of one thread, reused from picture to picture.
struct PictureCropWorkspace {
  Image decoded, converted;
  CenterCropWorkspace center;
  TransformWorkspace transform;
};

class PictureCrop {
 public:
  // Crops have the size of the model and `channels`: 1 or 3.
  PictureCrop(const ExperimentConfig& config, int channels, Split split);

  // Writes the crop of a picture to `out`. The picture may have 1 or 3 channels.
  void crop(const Image& picture, const SampleKey& key, PictureCropWorkspace& workspace,
            Image& out) const;
  // The same from the bytes of a file, whose name is `name` in errors. Throws DataError if it is
  // damaged.
  void decode(std::span<const std::byte> bytes, const std::string& name, const SampleKey& key,
              PictureCropWorkspace& workspace, Image& out) const;
  // The same from a sample with pixels, which `sample_workspace` names.
  void load(const Sample& sample, const SampleWorkspace& sample_workspace, const SampleKey& key,
            PictureCropWorkspace& workspace, Image& out) const;

  const DecodeOptions& decoding() const { return decoding_; }
  ColorMode color_mode() const { return channels_ == 1 ? ColorMode::kGray : ColorMode::kRgb; }

 private:
  void finish(const Image& picture, bool flip, PictureCropWorkspace& workspace, Image& out) const;
  bool draw_flip(const SampleKey& key) const;

  ImageSize size_;
  int channels_;
  double hflip_;
  bool fast_decode_;
  Resampling resampling_;
  DecodeOptions decoding_;
  std::optional<Transform> random_;  // unset: the centre
};

// Writes the pixels [height, width, channels] as float32 [channels, height, width] in [0, 1]:
// pixel / 255.
void write_unit_pixels(const Image& picture, std::span<float> out);

}  // namespace dtn
