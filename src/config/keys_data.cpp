// The keys of the data and of how training images are varied.
#include "config/key_rows.h"
#include "dtn/config/load.h"

namespace dtn::config {

template <>
std::span<const std::string> names_of<Interpolation>() {
  static const std::array<std::string, 2> names = {"bilinear", "bicubic"};
  return names;
}
template <>
std::span<const std::string> names_of<DecodeMode>() {
  static const std::array<std::string, 3> names = {"auto", "exact", "fast"};
  return names;
}
template <>
std::span<const std::string> names_of<AugmentPreset>() {
  static const std::array<std::string, 5> names = {"none", "light", "deit", "official", "deit3"};
  return names;
}

namespace {

// Read before the keys it gives values to.
Key augmentation() {
  return {"augment.preset", "how training images are varied",
          [](const Field& f, ExperimentConfig& c) {
            c.augment = augment_preset(enum_of<AugmentPreset>(f));
          },
          [](const ExperimentConfig& c) {
            return names_of<AugmentPreset>()[static_cast<std::size_t>(c.augment.preset)];
          }};
}

}  // namespace

std::vector<Key> data_keys() {
  return {
      value("data.dataset", FIELD(data.dataset), kAny, "the kind of data set"),
      value("data.root", FIELD(data.root), kAny, "folder of the data set"),
      value("data.train", FIELD(data.train), kAny, "folder, file or prefix of the training split"),
      value("data.val", FIELD(data.val), kAny, "folder, file or prefix of the validation split"),
      value("data.shuffle", FIELD(data.shuffle), kAny, "shuffle the training images every epoch"),
      value("data.workers", FIELD(data.workers), between(0, 1024),
            "decoding threads; default 2 on the CPU, nearly one per core for a GPU"),
      value("data.mean", FIELD(data.mean), kAny, "per channel, of values in [0, 1]"),
      value("data.std", FIELD(data.std), above(0), "per channel, of values in [0, 1]"),
      value("data.crop_pct", FIELD(data.crop_pct), positive_fraction(),
            "side of the evaluation crop relative to the resized image"),
      choice("data.interpolation", FIELD(data.interpolation), "how images are resized"),
      choice("data.decode", FIELD(data.decode), "of JPEGs; auto: fast to train, exact to evaluate"),
      value("data.repeats", FIELD(data.repeats), between(1, 1e6), "times an epoch sees an image"),
      value("data.size", FIELD(data.size), between(1, 1e9), "number of synthetic images"),
      value("data.max_bad_images", FIELD(data.max_bad_images), kCount,
            "damaged images skipped before it is an error"),

      augmentation(),
      pair("augment.scale", FIELD(augment.scale_min), FIELD(augment.scale_max), positive_fraction(),
           "least and largest area of the crop, relative to the image"),
      pair("augment.ratio", FIELD(augment.ratio_min), FIELD(augment.ratio_max), above(0),
           "least and largest width over height of the crop"),
      value("augment.hflip", FIELD(augment.hflip), between(0, 1), "chance of a horizontal flip"),
      value("augment.policy", FIELD(augment.policy), kAny,
            "RandAugment such as rand-m9-mstd0.5-inc1, three, or none"),
      value("augment.color_jitter", FIELD(augment.color_jitter), between(0, 1),
            "how much brightness, contrast and saturation vary"),
      value("augment.erase", FIELD(augment.erase), between(0, 1), "chance of random erasing"),
      value("augment.mixup", FIELD(augment.mixup), between(0, 1000),
            "parameter of the Beta distribution; 0 for never"),
      value("augment.cutmix", FIELD(augment.cutmix), between(0, 1000),
            "parameter of the Beta distribution; 0 for never"),
      value("augment.mix_chance", FIELD(augment.mix_chance), between(0, 1),
            "that a batch is mixed"),
      value("augment.mix_switch", FIELD(augment.mix_switch), between(0, 1),
            "chance of cutmix in place of mixup"),
      value("augment.mix_off_epoch", FIELD(augment.mix_off_epoch), kPositiveCount,
            "the epoch, counted from 0, from which on no batch is mixed; default never"),
      value("augment.repeats", FIELD(augment.repeats), between(1, 1000),
            "times a drawn image is used in a row"),
  };
}

}  // namespace dtn::config
