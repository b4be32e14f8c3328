// Where images come from and how they are prepared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtn {

enum class Interpolation { kBilinear, kBicubic };
enum class TrainInterpolation { kBilinear, kBicubic, kRandom };  // one of the two for each image

// Whose resizing: of images made less high by more than twice what they are made less wide, Pillow
// 13 resizes the columns first and Pillow up to 12.3 the rows. What is rounded in between differs.
enum class Resample { kPillow13, kPillow12 };

// How JPEGs are decoded: exactly, or as small as what is wanted of them allows (see Transform).
// kAuto is fast for training and exact for evaluation.
enum class DecodeMode { kAuto, kExact, kFast };

// The order of class folders, which numbers their labels: by the bytes of their names (0, 1, 10, 11,
// 2), as torchvision has it, or with numbers in names as numbers (0, 1, 2, 10, 11), as timm has it.
enum class ClassOrder { kBytes, kNatural };

struct DataConfig {
  // A name in the table of data sets, see dtn/data/dataset_registry.h.
  std::string dataset = "imagefolder";
  std::string root;
  // imagefolder: subfolder names (default train, val). imagenet, packed, tensors, listops: file names under
  // root (or whole paths). webdataset: a folder of shards, or names with braces or wildcards.
  // idx: prefixes of the -images-/-labels- files (default train, t10k).
  std::optional<std::string> train;
  std::optional<std::string> val;
  // The classes to use, as labels of the data set, which get the labels 0, 1, ... in this order;
  // empty: all, as they are.
  std::vector<std::int64_t> classes;
  std::optional<ClassOrder> class_order;  // imagefolder; unset: bytes
  bool shuffle = true;
  // Decoding threads beside the training threads; 0: in the training thread. See workers_of().
  std::optional<int> workers;
  std::vector<double> mean;  // per image channel; empty: the data set's usual values
  std::vector<double> std;
  double crop_pct = 0.875;
  Interpolation interpolation = Interpolation::kBicubic;
  std::optional<TrainInterpolation> train_interpolation;  // of training crops; unset: as above
  Resample resample = Resample::kPillow13;
  DecodeMode decode = DecodeMode::kAuto;
  int repeats = 1;                    // times an epoch goes through the images
  std::optional<std::int64_t> size;   // synthetic: number of images (1024, and 256 for val)
  std::int64_t max_bad_images = 100;  // damaged images skipped per run before it is an error
  bool operator==(const DataConfig&) const = default;
};

enum class AugmentPreset { kNone, kLight, kDeit, kOfficial, kDeit3 };

// How training images are varied, in this order: crop and flip, `policy`, colour jitter,
// normalisation, erasing; then whole batches are mixed. Without a preset an image is prepared as
// for evaluation, and only what is set besides happens to it.
struct AugmentConfig {
  AugmentPreset preset = AugmentPreset::kNone;
  // All presets but none: RandomResizedCrop and horizontal flip.
  double scale_min = 0.08, scale_max = 1.0;  // area of the crop relative to the image
  double ratio_min = 3.0 / 4, ratio_max = 4.0 / 3;
  double hflip = 0.5;
  // RandAugment in timm's notation ("rand-m9-mstd0.5-inc1"), "three" (DeiT III's) or "none".
  std::string policy = "none";
  // Brightness, contrast and saturation times a factor from [1 - this, 1 + this].
  double color_jitter = 0;
  double erase = 0;  // chance that a rectangle becomes noise
  // Parameters of the Beta distributions that share of an image's partner is drawn from; 0: off.
  double mixup = 0, cutmix = 0;
  double mix_chance = 1;    // that a batch is mixed at all
  double mix_switch = 0.5;  // that it is by cutmix, where both are on
  // From this epoch on, counted from 0, no batch is mixed; unset: all epochs have their chance.
  std::optional<std::int64_t> mix_off_epoch;
  // Times a drawn image is used in a row, under different random numbers; an epoch keeps its
  // length, and so sees a part of the images (Hoffer et al., "Augment your batch", 2020).
  int repeats = 1;
  bool operator==(const AugmentConfig&) const = default;

  bool mixes() const { return mix_chance > 0 && (mixup > 0 || cutmix > 0); }
  bool mixes_in(std::int64_t epoch) const {
    return mixes() && (!mix_off_epoch || epoch < *mix_off_epoch);
  }
};

}  // namespace dtn
