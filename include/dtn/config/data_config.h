// The data set and the preparation of its images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtn {

// Filter for resizing images.
enum class Interpolation { kBilinear, kBicubic };
// kRandom draws one of the two for each image.
enum class TrainInterpolation { kBilinear, kBicubic, kRandom };

// The Pillow version whose resizing is reproduced. If the height shrinks by more than twice the
// number of pixels by which the width shrinks, Pillow 13 resizes the columns first and Pillow up to
// 12.3 the rows. The intermediate rounding differs.
enum class Resample { kPillow13, kPillow12 };

// Decoding of JPEGs: exact, or at the smallest size that the transform allows (see Transform).
// kAuto is fast for training and exact for evaluation.
enum class DecodeMode { kAuto, kExact, kFast };

// The order of class folders, which determines their labels: by the bytes of their names (0, 1, 10,
// 11, 2), as in torchvision, or with digits compared as numbers (0, 1, 2, 10, 11), as in timm.
enum class ClassOrder { kBytes, kNatural };

// Draws of training samples: each sample once in a pass, or all classes equally often.
enum class Sampling { kUniform, kBalanced };

// Labels that the classes of a data set get in one of several label sets.
struct LabelSet {
  std::string name;
  // For each class of the data set, the name of its class in this set; equal names are one class.
  // Empty: the classes of the data set.
  std::vector<std::string> names;
  bool operator==(const LabelSet&) const = default;
};

// The labels [first, first + count) of a label set among those of all sets.
struct LabelRange {
  std::string name;  // of the set
  std::int64_t first = 0, count = 0;
};

// The picture of a sample that is corrupted, see DataConfig::corruptions.
enum class CorruptedPicture { kInput, kTarget };
// Direction between two folders of pictures, or the left and right halves of one.
enum class PairDirection { kAToB, kBToA };
// Kind of generated pictures: a map of classes to paint, of shapes or of one class alone; or a
// picture of shapes with a question to answer.
enum class DrawnTask { kMap, kPlainMap, kQuestion };

struct DataConfig {
  // A name in the registry of data sets, see dtn/data/dataset_registry.h.
  std::string dataset = "imagefolder";
  std::string root;
  // imagefolder: subfolder names (default train, val). imagenet, packed, tensors, listops: file
  // names under root (or whole paths). webdataset: a folder of shards, or names with braces or
  // wildcards. idx: prefixes of the -images-/-labels- files (default train, t10k).
  std::optional<std::string> train;
  std::optional<std::string> val;
  // The classes to use, as labels of the data set. They get the labels 0, 1, ... in this order.
  // Empty: all classes, with their labels unchanged.
  std::vector<std::int64_t> classes;
  // Label sets of the images. Each image is a sample once for each set, with its label in that set
  // and the field `style`, the position of the set. The classes of all sets follow one another.
  // Empty: one set, the labels of the data set.
  std::vector<LabelSet> label_sets;
  // imagefolder: a table of the images and their labels, in place of class folders. A relative path
  // and the paths in the table begin at the folder of the split, or at root if there is none.
  std::optional<std::string> labels;
  // imagefolder: the share of the training images to hold out as the validation split.
  std::optional<double> split;
  std::optional<ClassOrder> class_order;  // imagefolder; unset: bytes
  // A text file with the names of the classes in label order, one per line; a relative path begins
  // at root. Unset: the names and the order of the data set.
  std::optional<std::string> class_names;
  bool shuffle = true;
  Sampling sampling = Sampling::kUniform;
  // Decoding threads besides the training threads; 0: decode in the training thread. See
  // workers_of().
  std::optional<int> workers;
  std::vector<double> mean;  // per image channel; empty: the data set's usual values
  std::vector<double> std;
  double crop_pct = 0.875;
  Interpolation interpolation = Interpolation::kBicubic;
  // For training crops; unset: `interpolation`.
  std::optional<TrainInterpolation> train_interpolation;
  Resample resample = Resample::kPillow13;
  DecodeMode decode = DecodeMode::kAuto;
  bool exif = false;                  // turn images as their EXIF orientation says
  int repeats = 1;                    // times an epoch goes through the images
  std::optional<std::int64_t> size;   // synthetic: number of images (1024, and 256 for val)
  std::int64_t max_bad_images = 100;  // damaged images a run may skip; more are an error
  // Detectors: images are resized so that neither the long nor the short side exceeds its limit,
  // and padded to a multiple of size_divisor. Training mirrors them with the probability `flip`.
  int scale_long = 1333, scale_short = 800;
  int size_divisor = 32;
  double flip = 0.5;
  // Task translate, for any data set of images: a corruption with a severity, "fog/3", or a range
  // of them, "fog/1-5". One of the corruptions, drawn for each sample, makes the input from the
  // target, or the target from the input. Empty: the data set has pairs.
  std::vector<std::string> corruptions;
  CorruptedPicture corrupted = CorruptedPicture::kInput;
  // pairs: both pictures of a pair side by side in one file, instead of in the folders A and B.
  bool side_by_side = false;
  PairDirection direction = PairDirection::kAToB;
  DrawnTask drawn = DrawnTask::kMap;  // drawn
  bool operator==(const DataConfig&) const = default;
};

// Values of augment.preset, see docs/augmentation.md.
enum class AugmentPreset { kNone, kLight, kDeit, kOfficial, kDeit3, kDino, kSupcon };

// Augmentation of training images, in this order: crop and flip, `policy`, colour jitter,
// normalisation, erasing; then whole batches are mixed. Without a preset, images are prepared as
// for evaluation, and only the other keys add augmentation.
//
// The presets dino and supcon make several views of each image, in this order: crop and flip,
// colour jitter, grey, blur, solarize, normalisation. They have no policy, erasing and mixing.
struct AugmentConfig {
  AugmentPreset preset = AugmentPreset::kNone;
  // All presets but none: RandomResizedCrop and horizontal flip.
  double scale_min = 0.08, scale_max = 1.0;  // area of the crop relative to the image
  double ratio_min = 3.0 / 4, ratio_max = 4.0 / 3;
  double hflip = 0.5;
  // RandAugment in timm's notation ("rand-m9-mstd0.5-inc1"), "three" (DeiT III's) or "none".
  std::string policy = "none";
  // Brightness, contrast and saturation are each scaled by a factor from [1 - this, 1 + this]. The
  // presets dino and supcon also turn the hue, and apply all this to a view with probability 0.8.
  double color_jitter = 0;
  // Presets dino and supcon: probabilities that a view becomes grey, that it is blurred, and that
  // the second view (the second large one of dino) is solarized. `blur` has one number for all
  // views, or three: for the first, for the second and for the others. Empty: no blur.
  double gray = 0;
  std::vector<double> blur;
  double solarize = 0;
  double erase = 0;  // probability that a rectangle becomes noise
  // Parameters of the Beta distributions of the share of an image's partner; 0: off.
  double mixup = 0, cutmix = 0;
  double mix_chance = 1;    // probability that a batch is mixed
  double mix_switch = 0.5;  // probability of cutmix for a mixed batch, if both are on
  // First epoch without mixing, counted from 0; unset: all epochs may mix.
  std::optional<std::int64_t> mix_off_epoch;
  // Consecutive uses of each drawn image, with different random numbers. The length of an epoch
  // does not change, so it contains only part of the images (Hoffer et al., "Augment your batch",
  // 2020).
  int repeats = 1;
  bool operator==(const AugmentConfig&) const = default;

  // True if the preset makes several views of each image.
  bool makes_views() const {
    return preset == AugmentPreset::kDino || preset == AugmentPreset::kSupcon;
  }
  // True if batches may be mixed.
  bool mixes() const { return mix_chance > 0 && (mixup > 0 || cutmix > 0); }
  // True if batches of this epoch, counted from 0, may be mixed.
  bool mixes_in(std::int64_t epoch) const {
    return mixes() && (!mix_off_epoch || epoch < *mix_off_epoch);
  }
};

}  // namespace dtn
