// Keys of the data and of the augmentation.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>

#include "config/key_rows.h"
#include "dtn/config/load.h"

namespace dtn::config {
namespace {

// Must be read before the keys that it sets.
Key augmentation() {
  Key key =
      choice(KEY(augment.preset), {"none", "light", "deit", "official", "deit3", "dino", "supcon"},
             "augmentation of training images; the other keys of this section start from its "
             "values; see docs/augmentation.md");
  key.read = [names = key.choices](const Field& f, ExperimentConfig& c) {
    c.augment = augment_preset(static_cast<AugmentPreset>(read_choice(f, names)));
  };
  return key;
}

constexpr std::int64_t kMaxClasses = 1'000'000;

// Adds the class "7", or all classes of a range "0-4".
void add_classes(const Field& field, std::vector<std::int64_t>& classes) {
  const std::string& text = field.node.text;
  const std::size_t dash = text.find('-');
  std::int64_t first = 0, last = 0;
  const bool is_number =
      field.node.is_scalar() && parse_integer(text.substr(0, dash), first) &&
      parse_integer(dash == std::string::npos ? text : text.substr(dash + 1), last);
  if (!is_number || first < 0 || last < first || last >= kMaxClasses) {
    fail(field, "must be a list of labels below ", kMaxClasses, ", or ranges such as 0-4, not ",
         shown(field.node));
  }
  if (static_cast<std::int64_t>(classes.size()) + last - first >= kMaxClasses) {
    fail(field, "has more than ", kMaxClasses, " labels");
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
  return {"data.classes",
          "labels of the classes to use; they become 0, 1, ... in this order; unset: all classes",
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

constexpr std::size_t kMaxLabelSets = 1000;

// True for letters, digits and "_", "-".
bool is_set_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

// Reads "article", or "kind = top trouser top".
LabelSet read_label_set(const Field& field) {
  if (!field.node.is_scalar()) {
    fail(field,
         "must be a list of names such as `article`, or of names with a class for each "
         "class of the data set, such as `kind = top trouser top`, not ",
         shown(field.node));
  }
  const std::string& text = field.node.text;
  const std::size_t sign = text.find('=');
  LabelSet set;
  std::istringstream name(text.substr(0, sign));
  std::string rest;
  name >> set.name;
  if (!is_set_name(set.name) || name >> rest) {
    fail(field, "has the set `", shown(text),
         "`, whose name must be letters, digits, _ and -, followed by nothing or by `=`");
  }
  if (sign == std::string::npos) return set;
  std::istringstream names(text.substr(sign + 1));
  for (std::string one; names >> one;) set.names.push_back(one);
  if (set.names.empty()) {
    fail(field, "has the set `", set.name,
         "` with `=` and no names; give one for each class of the data set");
  }
  return set;
}

std::string write_label_sets(const std::vector<LabelSet>& sets) {
  std::string out;
  for (const LabelSet& set : sets) {
    const std::string text =
        set.names.empty() ? set.name : cat(set.name, " = ", join(set.names, " "));
    out += cat(out.empty() ? "" : ", ", string_text(text));
  }
  return out.empty() ? "null" : cat("[", out, "]");
}

Key label_sets() {
  return {"data.label_sets",
          "label sets of the images: a name alone has the classes of the data set; a name with "
          "`=` and a word for each of them in their order joins the classes with the same word; "
          "each image is a sample once for each set, the head has the classes of all sets one "
          "after the other, and the field `style` is the position of the set (see "
          "model.condition.from); unset: the labels of the data set",
          [](const Field& f, ExperimentConfig& c) {
            std::vector<LabelSet>& sets = c.data.label_sets;
            sets.clear();
            if (!f.node.is_list()) sets.push_back(read_label_set(f));
            for (const Node& item : f.node.items) {
              sets.push_back(read_label_set({item, f.path, f.doc}));
              if (sets.size() > kMaxLabelSets) fail(f, "has more than ", kMaxLabelSets, " sets");
            }
            if (sets.empty()) fail(f, "must have at least one set; null: the labels of the data");
            for (std::size_t i = 0; i < sets.size(); ++i) {
              const auto same = [&](const LabelSet& set) { return set.name == sets[i].name; };
              if (std::ranges::count_if(sets, same) > 1) {
                fail(f, "has the set `", sets[i].name, "` twice");
              }
            }
          },
          [](const ExperimentConfig& c) { return write_label_sets(c.data.label_sets); },
          "list of sets",
          kAny,
          {},
          "[article, kind = top trouser top dress top shoe top shoe bag shoe]"};
}

constexpr std::size_t kMaxCorruptions = 1000;

std::string read_corruption(const Field& field) {
  if (!field.node.is_scalar() || field.node.text.empty()) {
    fail(field, "must be a list of corruptions such as fog/3 or fog/1-5, not ", shown(field.node));
  }
  return field.node.text;
}

// Reads names; the task knows the corruptions.
Key corruptions() {
  return {"data.corruptions",
          "corruptions of which one, drawn for each image, makes the other picture of a pair, each "
          "with a severity from 1 to 5 or a range of them; the field `style` is the position in "
          "this list, in which a range counts once for each severity; unset: the data set has "
          "pairs; see data/README.md",
          [](const Field& f, ExperimentConfig& c) {
            std::vector<std::string>& all = c.data.corruptions;
            all.clear();
            if (!f.node.is_list()) all.push_back(read_corruption(f));
            for (const Node& item : f.node.items) {
              all.push_back(read_corruption({item, f.path, f.doc}));
            }
            if (all.empty()) fail(f, "must have at least one corruption; null: none");
            if (all.size() > kMaxCorruptions)
              fail(f, "has more than ", kMaxCorruptions, " entries");
          },
          [](const ExperimentConfig& c) {
            const auto& all = c.data.corruptions;
            return all.empty() ? "null" : cat("[", join(all, ", ", string_text), "]");
          },
          "list of corruptions with severities",
          kAny,
          {},
          "[fog/1-5, gaussian_noise/3]"};
}

// Makes a row of two whole numbers of pixels, the larger one first.
template <class First, class Second>
Key sides(const char* path, First first, Second second, const Range& range, const char* doc) {
  Key key = pair(path, first, second, range, doc);
  key.read = [=](const Field& f, ExperimentConfig& c) {
    const auto [a, b] = read_pair(f, range);
    if (a != std::floor(a) || b != std::floor(b)) {
      fail(f, "must be two whole numbers of pixels, not ", shown(f.node));
    }
    first(c) = static_cast<int>(std::max(a, b));
    second(c) = static_cast<int>(std::min(a, b));
  };
  return key;
}

}  // namespace

std::vector<Key> data_keys() {
  return {
      value(KEY(data.dataset), "kind of data set; see dtn-info --datasets"),
      value(KEY(data.root), "data/imagenet",
            "folder or file of the data set; data.train and data.val are names below it"),
      value(KEY(data.train), "train",
            "training split: a folder, a file, a prefix of files or a pattern, depending on "
            "data.dataset; unset: the usual name for the data set"),
      value(KEY(data.val), "val",
            "validation split, named like data.train; unset: the usual name for the data set"),
      value(KEY(data.labels), "labels.csv",
            "table of the images and their labels, .csv or .tsv, in place of class folders: a path "
            "and a label per line, with or without a header; a relative path and the paths in the "
            "table begin at the folder of the split, or at data.root if there is none; unset: the "
            "class folders; for images with several labels, see docs/multilabel.md"),
      value(KEY(data.split), inner_fraction(), "0.2",
            "share of the training images that becomes the validation split, if there is none; the "
            "same of each class, chosen by the seed and the names of the files; unset: none"),
      classes(),
      label_sets(),
      choice(KEY(data.class_order), {"bytes", "natural"}, "natural",
             "order of the class folders, which determines their labels: bytes of their names (0, "
             "1, 10, 11, 2), as in torchvision, or natural, with digits compared as numbers (0, 1, "
             "2, 10, 11), as in timm; unset: bytes"),
      value(KEY(data.class_names), "classes.txt",
            "text file with the names of the classes in the order of their labels, one per line: "
            "names the classes of data that has numbers, and orders those of data that has names; "
            "a relative path begins at data.root; unset: the names and the order of the data"),
      value(KEY(data.shuffle), "draws a new order of the training images in every epoch"),
      choice(
          KEY(data.sampling), {"uniform", "balanced"}, "balanced",
          "draws of the training images: uniform (each image once in a pass through the data) or "
          "balanced (a random class, then a random image of it, with replacement; the epoch "
          "keeps its length); see docs/uneven-classes.md"),
      value(KEY(data.workers), between(0, 1024), "8",
            "number of threads that read and augment images, besides the computing threads; 0: "
            "none; unset: 2 on the CPU, nearly one per core for a GPU; the number does not change "
            "the results"),
      value(KEY(data.mean), "[0.485, 0.456, 0.406]",
            "subtracted from pixels in [0, 1]: one number, or one per channel; unset: the usual "
            "mean for the data set"),
      value(KEY(data.std), above(0), "[0.229, 0.224, 0.225]",
            "divisor of the pixels after data.mean is subtracted: one number, or one per channel; "
            "unset: the usual standard deviation for the data set"),
      value(
          KEY(data.crop_pct), positive_fraction(),
          "evaluation: side of the central crop, relative to the short side of the resized image"),
      choice(KEY(data.interpolation), {"bilinear", "bicubic"}, "interpolation for resizing images"),
      choice(KEY(data.train_interpolation), {"bilinear", "bicubic", "random"}, "random",
             "interpolation of the random training crops and of RandAugment's operations that move "
             "pixels; random draws bilinear or bicubic for each image, as in timm; unset: "
             "data.interpolation"),
      choice(KEY(data.resample), {"pillow13", "pillow12"},
             "Pillow version whose resized pixels are reproduced: pillow13 resizes the columns of "
             "some tall images first, pillow12 (Pillow up to 12.3) never does; runs and "
             "checkpoints made before this key keep pillow12"),
      choice(KEY(data.decode), {"auto", "exact", "fast"},
             "decoding of JPEGs: exact; fast, at the smallest size that the crop allows; auto, "
             "which is fast for training and exact for evaluation"),
      value(
          KEY(data.exif),
          "true turns images as their EXIF orientation says, which phones store; false ignores it, "
          "as torchvision does; dtn-train on a folder of images sets it"),
      value(KEY(data.repeats), between(1, 1e6),
            "number of passes through the training images in one epoch"),
      value(KEY(data.size), between(1, 1e9), "4096",
            "number of generated images; unset: 1024 for training and 256 for validation"),
      value(KEY(data.max_bad_images), kCount,
            "number of damaged images that a run may skip; one more is an error"),
      sides("data.scale", FIELD(data.scale_long), FIELD(data.scale_short), between(1, 16384),
            "detectors: most pixels of the long and of the short side of a resized image, which "
            "keeps its shape and touches one of the two limits"),
      value(KEY(data.size_divisor), between(1, 1024),
            "detectors: the sides of images are padded to a multiple of this number; it must suit "
            "the strides of the model and the pools of its norms"),
      value(KEY(data.flip), fraction(),
            "detectors: probability that a training image and its boxes are mirrored"),
      corruptions(),
      choice(KEY(data.corrupted), {"input", "target"},
             "picture of a pair that data.corruptions makes from the image of the data set: input "
             "(the model restores images) or target (the model learns to corrupt them)"),
      value(KEY(data.side_by_side),
            "both pictures of a pair lie side by side in one file, A on the left, instead of in "
            "the folders A and B"),
      choice(KEY(data.direction), {"a_to_b", "b_to_a"},
             "pictures of a pair that are input and target: a_to_b (input A, target B) or b_to_a"),
      choice(KEY(data.drawn), {"map", "plain_map", "question"},
             "generated pairs: map (a map of classes, to be painted with a texture for each "
             "class), plain_map (the same with one class everywhere, to look at a model of maps) "
             "or question (a picture of shapes, and a shape and a colour to be marked)"),

      augmentation(),
      pair("augment.scale", FIELD(augment.scale_min), FIELD(augment.scale_max), positive_fraction(),
           "smallest and largest area of the random crop, relative to the image"),
      pair("augment.ratio", FIELD(augment.ratio_min), FIELD(augment.ratio_max), above(0),
           "smallest and largest aspect ratio (width / height) of the random crop"),
      value(KEY(augment.hflip), between(0, 1), "probability of a horizontal flip"),
      value(KEY(augment.policy), "rand-m9-mstd0.5-inc1",
            "operations on a cropped image: rand-... (RandAugment in timm's notation), three (DeiT "
            "III's three-augment) or none"),
      value(KEY(augment.color_jitter), between(0, 1), "0.3",
            "range x of the colour jitter: brightness, contrast and saturation are multiplied by "
            "factors from [1 - x, 1 + x]; the presets dino and supcon also turn the hue by up to "
            "x / 4 of the circle, and dino halves the range of the saturation"),
      value(KEY(augment.gray), between(0, 1),
            "presets dino and supcon: probability that a view becomes grey"),
      value(
          KEY(augment.blur), between(0, 1), "[1, 0.1, 0.5]",
          "presets dino and supcon: probability that a view is blurred: one number, or three, for "
          "the first view, for the second and for the others; unset: 0"),
      value(KEY(augment.solarize), between(0, 1),
            "presets dino and supcon: probability that the second view is solarized (dino: the "
            "second of the two large views)"),
      value(KEY(augment.erase), between(0, 1), "0.25",
            "random erasing: probability that a rectangle of the image becomes noise"),
      value(KEY(augment.mixup), between(0, 1000), "0.8",
            "mixup: parameter a of the distribution Beta(a, a) of the partner's share of an image; "
            "0: off"),
      value(KEY(augment.cutmix), between(0, 1000), "1",
            "CutMix: parameter a of the distribution Beta(a, a) of the partner's share of the "
            "area; 0: off"),
      value(KEY(augment.mix_chance), between(0, 1),
            "probability that a batch is mixed, if mixup or cutmix is on"),
      value(KEY(augment.mix_switch), between(0, 1),
            "probability that a mixed batch uses CutMix, if both mixup and cutmix are on"),
      value(KEY(augment.mix_off_epoch), kPositiveCount, "280",
            "first epoch without mixing, counted from 0; unset: all epochs may mix"),
      value(KEY(augment.repeats), between(1, 1000),
            "repeated augmentation: number of times that a drawn image is used in a row, augmented "
            "anew each time; the length of an epoch does not change"),
  };
}

}  // namespace dtn::config

namespace dtn {

AugmentConfig augment_preset(AugmentPreset preset) {
  AugmentConfig a;
  a.preset = preset;
  switch (preset) {
    case AugmentPreset::kNone:
    case AugmentPreset::kLight: break;
    case AugmentPreset::kDeit:
      a.policy = "rand-m9-mstd0.5-inc1";
      a.erase = 0.25;
      a.mixup = 0.8;
      a.cutmix = 1;
      a.repeats = 3;
      break;
    // The released DTN code parses DeiT's options, but applies no mixup, no CutMix and no erasing.
    case AugmentPreset::kOfficial:
      a.policy = "rand-m9-mstd0.5-inc1";
      a.repeats = 3;
      break;
    // Touvron et al., "DeiT III: Revenge of the ViT", 2022.
    case AugmentPreset::kDeit3:
      a.policy = "three";
      a.color_jitter = 0.3;
      a.mixup = 0.8;
      a.cutmix = 1;
      a.repeats = 3;
      break;
    // Several views per image; see docs/augmentation.md.
    // Areas of the crops are in the section dino.
    case AugmentPreset::kDino:
      a.color_jitter = 0.4;
      a.gray = 0.2;
      a.blur = {1, 0.1, 0.5};
      a.solarize = 0.2;
      break;
    case AugmentPreset::kSupcon:
      a.scale_min = 0.2;
      a.color_jitter = 0.4;
      a.gray = 0.2;
      a.blur = {0.5};
      break;
  }
  return a;
}

}  // namespace dtn
