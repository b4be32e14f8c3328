// Where images come from and how they are prepared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtn {

enum class Interpolation { kBilinear, kBicubic };

struct DataConfig {
  std::string dataset = "imagefolder";  // imagefolder|idx|tensors|cifar10|cifar100|synthetic
  std::string root;
  // imagefolder: subfolder names (default train, val). tensors: file names under root (or whole
  // paths). idx: prefixes of the -images-/-labels- files (default train, t10k).
  std::optional<std::string> train;
  std::optional<std::string> val;
  bool shuffle = true;
  int workers = 2;  // decoding threads beside the training threads; 0: in the training thread
  std::vector<double> mean;  // per image channel; empty: the data set's usual values
  std::vector<double> std;
  double crop_pct = 0.875;
  Interpolation interpolation = Interpolation::kBicubic;
  int repeats = 1;                    // times an epoch goes through the images
  std::optional<std::int64_t> size;   // synthetic: number of images (1024, and 256 for val)
  std::int64_t max_bad_images = 100;  // damaged images skipped per run before it is an error
  bool operator==(const DataConfig&) const = default;
};

enum class AugmentPreset { kNone, kLight, kDeit, kOfficial };

struct AugmentConfig {
  AugmentPreset preset = AugmentPreset::kNone;
  // light: RandomResizedCrop and horizontal flip.
  double scale_min = 0.08, scale_max = 1.0;  // area of the crop relative to the image
  double ratio_min = 3.0 / 4, ratio_max = 4.0 / 3;
  double hflip = 0.5;
  bool operator==(const AugmentConfig&) const = default;
};

}  // namespace dtn
