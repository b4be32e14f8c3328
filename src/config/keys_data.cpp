// Keys of the data and of the augmentation.
#include <algorithm>

#include "config/key_rows.h"
#include "dtn/config/load.h"

namespace dtn::config {

template <>
std::span<const std::string> names_of<Interpolation>() {
  static const std::array<std::string, 2> names = {"bilinear", "bicubic"};
  return names;
}
template <>
std::span<const std::string> names_of<TrainInterpolation>() {
  static const std::array<std::string, 3> names = {"bilinear", "bicubic", "random"};
  return names;
}
template <>
std::span<const std::string> names_of<Resample>() {
  static const std::array<std::string, 2> names = {"pillow13", "pillow12"};
  return names;
}
template <>
std::span<const std::string> names_of<ClassOrder>() {
  static const std::array<std::string, 2> names = {"bytes", "natural"};
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

// Must be read before the keys that it sets.
Key augmentation() {
  Key key = choice("augment.preset", FIELD(augment.preset),
                   "how training images are varied: what the other keys of this section start "
                   "from, see docs/augmentation.md");
  key.read = [](const Field& f, ExperimentConfig& c) {
    c.augment = augment_preset(enum_of<AugmentPreset>(f));
  };
  return key;
}

constexpr std::int64_t kMostClasses = 1'000'000;

// Adds the class "7", or all classes of a range "0-4".
void add_classes(const Field& field, std::vector<std::int64_t>& classes) {
  const std::string& text = field.node.text;
  const std::size_t dash = text.find('-');
  std::int64_t first = 0, last = 0;
  const bool is_number =
      field.node.is_scalar() && parse_integer(text.substr(0, dash), first) &&
      parse_integer(dash == std::string::npos ? text : text.substr(dash + 1), last);
  if (!is_number || first < 0 || last < first || last >= kMostClasses) {
    fail(field, "must be a list of labels below ", kMostClasses, ", or ranges such as 0-4, not ",
         shown(field.node));
  }
  if (static_cast<std::int64_t>(classes.size()) + last - first >= kMostClasses) {
    fail(field, "has more than ", kMostClasses, " labels");
  }
  for (std::int64_t label = first; label <= last; ++label) {
    classes.push_back(label);
  }
}

// Writes consecutive labels as ranges.
std::string write_classes(const std::vector<std::int64_t>& classes) {
  std::string out;
  for (std::size_t i = 0, end = 0; i < classes.size(); i = end) {
    for (end = i + 1; end < classes.size() && classes[end] == classes[end - 1] + 1;) ++end;
    out += cat(out.empty() ? "" : ", ", classes[i]);
    if (end > i + 1) out += cat("-", classes[end - 1]);
  }
  return out.empty() ? "null" : cat("[", out, "]");
}

Key classes() {
  return {
      "data.classes",
      "labels of the data set's classes to use, which become 0, 1, ... in this order; unset: all",
      [](const Field& f, ExperimentConfig& c) {
        std::vector<std::int64_t>& all = c.data.classes;
        all.clear();
        if (!f.node.is_list()) add_classes(f, all);
        for (const Node& item : f.node.items) add_classes({item, f.path, f.doc}, all);
        std::vector<std::int64_t> sorted = all;
        std::ranges::sort(sorted);
        const auto twice = std::ranges::adjacent_find(sorted);
        if (twice != sorted.end()) fail(f, "has the label ", *twice, " twice");
      },
      [](const ExperimentConfig& c) { return write_classes(c.data.classes); },
      "list of labels, or ranges such as 0-4",
      kAny,
      {},
      "[0-4, 7]"};
}

}  // namespace

std::vector<Key> data_keys() {
  return {
      value("data.dataset", FIELD(data.dataset), kAny,
            "the kind of data set, see dtn-info --datasets"),
      value("data.root", FIELD(data.root), kAny,
            "folder or file of the data set; what train and val name lies below it",
            "data/imagenet"),
      value("data.train", FIELD(data.train), kAny,
            "the training split: a folder, file, prefix of files or pattern, as the kind of data "
            "set has it; unset: its usual name",
            "train"),
      value("data.val", FIELD(data.val), kAny,
            "the validation split, named like data.train; unset: its usual name", "val"),
      classes(),
      choice("data.class_order", FIELD(data.class_order),
             "the order of class folders, which numbers their labels: bytes of their names (0, 1, "
             "10, 11, 2), as torchvision has it, or natural, with numbers as numbers (0, 1, 2, 10, "
             "11), as timm has it; unset: bytes",
             "natural"),
      value("data.shuffle", FIELD(data.shuffle), kAny,
            "whether training images come in another order in every epoch"),
      value("data.workers", FIELD(data.workers), between(0, 1024),
            "decoding threads beside the computing ones, 0 for none; unset: 2 on the CPU, nearly "
            "one per core for a GPU; no number changes the results",
            "8"),
      value("data.mean", FIELD(data.mean), kAny,
            "subtracted from pixels in [0, 1], one number or one per channel; unset: the mean "
            "usual for the data set",
            "[0.485, 0.456, 0.406]"),
      value("data.std", FIELD(data.std), above(0),
            "what pixels less data.mean are divided by, one number or one per channel; unset: the "
            "deviation usual for the data set",
            "[0.229, 0.224, 0.225]"),
      value("data.crop_pct", FIELD(data.crop_pct), positive_fraction(),
            "evaluation: side of the central crop relative to the short side of the resized image"),
      choice("data.interpolation", FIELD(data.interpolation), "how images are resized"),
      choice("data.train_interpolation", FIELD(data.train_interpolation),
             "how the random crops of training are resized, and RandAugment moves pixels; random "
             "draws bilinear or bicubic for each image, as timm does; unset: as data.interpolation",
             "random"),
      choice("data.resample", FIELD(data.resample),
             "which Pillow's pixels resizing gives: Pillow 13 resizes the columns of some tall "
             "images first, Pillow up to 12.3 never does; runs and checkpoints made before this "
             "key keep pillow12"),
      choice("data.decode", FIELD(data.decode),
             "how JPEGs are decoded: exactly, or fast, as small as the crop allows; auto: fast to "
             "train, exact to evaluate"),
      value("data.repeats", FIELD(data.repeats), between(1, 1e6),
            "times that an epoch goes through the training images"),
      value("data.size", FIELD(data.size), between(1, 1e9),
            "number of made-up images; unset: 1024, and 256 to validate", "4096"),
      value("data.max_bad_images", FIELD(data.max_bad_images), kCount,
            "damaged images that a run may skip before they are an error"),

      augmentation(),
      pair("augment.scale", FIELD(augment.scale_min), FIELD(augment.scale_max), positive_fraction(),
           "least and largest area of the random crop, relative to the image"),
      pair("augment.ratio", FIELD(augment.ratio_min), FIELD(augment.ratio_max), above(0),
           "least and largest width over height of the random crop"),
      value("augment.hflip", FIELD(augment.hflip), between(0, 1), "chance of a horizontal flip"),
      value("augment.policy", FIELD(augment.policy), kAny,
            "what happens to a cropped image: RandAugment in timm's notation, DeiT III's choice of "
            "three, or nothing",
            "rand-m9-mstd0.5-inc1"),
      value("augment.color_jitter", FIELD(augment.color_jitter), between(0, 1),
            "brightness, contrast and saturation times a factor from [1 - this, 1 + this]", "0.3"),
      value("augment.erase", FIELD(augment.erase), between(0, 1),
            "chance of random erasing: a rectangle of the image becomes noise", "0.25"),
      value("augment.mixup", FIELD(augment.mixup), between(0, 1000),
            "mixup: parameter of the Beta distribution that the partner's share of an image is "
            "drawn from; 0: never",
            "0.8"),
      value("augment.cutmix", FIELD(augment.cutmix), between(0, 1000),
            "CutMix: parameter of the Beta distribution that the partner's share of the area is "
            "drawn from; 0: never",
            "1"),
      value("augment.mix_chance", FIELD(augment.mix_chance), between(0, 1),
            "chance that a batch is mixed at all, where mixup or cutmix is on"),
      value("augment.mix_switch", FIELD(augment.mix_switch), between(0, 1),
            "chance that a mixed batch is mixed by cutmix, where mixup is on as well"),
      value("augment.mix_off_epoch", FIELD(augment.mix_off_epoch), kPositiveCount,
            "the epoch, counted from 0, from which on no batch is mixed; unset: every batch has "
            "its chance",
            "280"),
      value("augment.repeats", FIELD(augment.repeats), between(1, 1000),
            "repeated augmentation: times that a drawn image is used in a row, varied anew each "
            "time; an epoch keeps its length"),
  };
}

}  // namespace dtn::config
