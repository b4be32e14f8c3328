// Random policies over the operations of image_ops.h: RandAugment in timm's string language (Cubuk
// et al., "RandAugment", 2020; timm 0.4.9, data/auto_augment.py), the three-augment of DeiT III
// (Touvron et al., 2022) and torchvision's colour jitter.
//
// The operations for a sample are first drawn, as a short list, and then applied. A draw depends
// only on the key of the sample.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "data/sample/image_ops.h"
#include "dtn/data/augmentation.h"

namespace dtn {

// Operations, with the meaning of AugmentStep::argument.
enum class AugmentOp : std::uint8_t {
  // The fifteen of RandAugment, in timm's order.
  kAutoContrast,  // none
  kEqualize,      // none
  kInvert,        // none
  kRotate,        // degrees, counter-clockwise
  kPosterize,     // bits to keep
  kSolarize,      // threshold
  kSolarizeAdd,   // addend
  kColor,         // factor
  kContrast,      // factor
  kBrightness,    // factor
  kSharpness,     // factor
  kShearX,        // columns per row
  kShearY,        // rows per column
  kTranslateX,    // shift to the left, as a part of the width
  kTranslateY,    // shift upwards, as a part of the height
  // Others.
  kGrayscale,     // none
  kGaussianBlur,  // radius
  kHue,           // part of a full circle
};
inline constexpr int kRandAugmentOps = 15;

struct AugmentStep {
  AugmentOp op = AugmentOp::kAutoContrast;
  double argument = 0;
  std::optional<AffineFilter> filter{};  // overrides the geometry's filter
  bool operator==(const AugmentStep&) const = default;
};

// Operations to apply to one image, in this order.
struct AugmentDraw {
  static constexpr int kMaxSteps = 8;
  std::array<AugmentStep, kMaxSteps> steps{};
  int count = 0;
  void add(AugmentOp op, double argument, std::optional<AffineFilter> filter = {}) {
    steps[static_cast<std::size_t>(count++)] = {op, argument, filter};
  }
  const AugmentStep* begin() const { return steps.data(); }
  const AugmentStep* end() const { return steps.data() + count; }
};

// Settings of operations that move pixels.
struct AugmentGeometry {
  AffineFilter filter = AffineFilter::kBicubic;
  FillColor fill{124, 116, 104};  // ImageNet's mean
  bool random_filter = false;     // RandAugment draws a filter for each operation, as in timm
};
// Returns the geometry of a setup: moves pixels with its interpolation, and fills in its mean.
AugmentGeometry geometry_for(const AugmentationSetup& setup);

void apply_steps(const AugmentDraw& draw, const AugmentGeometry& geometry, Image& image,
                 ImageOpsWorkspace& workspace);

// A policy: `rand` followed by these parts, in any order and separated by dashes. timm reads any
// digits after `inc` as yes and skips unknown words. Here `inc0` means no, and the rest are errors.
struct RandAugmentPolicy {
  int magnitude = 10;        // m0 .. m10
  int ops = 2;               // n1 .. n8; each is applied with probability 0.5
  bool weighted = false;     // w0: timm's weights of the operations, no operation twice
  double magnitude_std = 0;  // mstd0.5: the magnitude of each application is N(m, mstd) in [0, 10]
  bool increasing = false;   // inc1: all operations get stronger with the magnitude
  bool operator==(const RandAugmentPolicy&) const = default;
};
// Throws ConfigError that names the wrong part and the values that are allowed there.
RandAugmentPolicy parse_rand_augment(const std::string& text);

// Returns the argument of one of the fifteen operations at a magnitude in [0, 10]. `negate`
// reverses angles, shears, shifts and, if `increasing`, the factors' distance from 1.
double rand_augment_argument(AugmentOp op, double magnitude, bool increasing, bool negate);

class AutoAugment : public Augmentation {
 public:
  // `policy`: "rand-...", "three" (one of grey, solarize and blur; colour jitter is not part of it)
  // or "none". Throws ConfigError for anything else.
  explicit AutoAugment(const std::string& policy, const AugmentGeometry& geometry = {});

  AugmentDraw draw(const SampleKey& key) const;
  void apply(Image& image, const SampleKey& key, ImageOpsWorkspace& workspace) const override {
    apply_steps(draw(key), geometry_, image, workspace);
  }
  bool concerns(const SampleKey& key) const override { return draw(key).count > 0; }
  bool active() const { return kind_ != Kind::kNone; }

 private:
  enum class Kind { kNone, kRand, kThree };
  Kind kind_ = Kind::kNone;
  RandAugmentPolicy rand_;
  AugmentGeometry geometry_;
};

// torchvision's ColorJitter. Immutable and safe to share between threads.
class ColorJitter {
 public:
  // Factors are uniform in [max(0, 1 - x), 1 + x] for brightness, contrast and saturation. The turn
  // of the hue is uniform in [-hue, hue], with hue at most 0.5. A value of 0 leaves a property
  // unchanged. Throws ConfigError for other values.
  ColorJitter(double brightness, double contrast, double saturation, double hue = 0);

  // Returns the operations in random order.
  AugmentDraw draw(const SampleKey& key) const;
  bool active() const;

 private:
  std::array<double, 4> strength_;  // brightness, contrast, saturation, hue
};

}  // namespace dtn
