#include "data/sample/auto_augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/text.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kPolicyStream = 0xA06E0010u;
constexpr std::uint32_t kJitterStream = 0xA06E0011u;
constexpr std::uint64_t kPolicyGroups = 16;  // groups of four random words, two per step
static_assert(std::uint64_t{2} * AugmentDraw::kMaxSteps <= kPolicyGroups);

// The random words of one sample, by number.
class Words {
 public:
  Words(const SampleKey& key, std::uint32_t stream)
      : key_{key.seed, stream, key.epoch}, first_(key.sample * kPolicyGroups) {}
  std::uint32_t word(int i) const {
    return philox_group(key_, first_ + static_cast<unsigned>(i) / 4).v[i % 4];
  }
  double uniform(int i) const { return word(i) * 0x1p-32; }  // [0, 1)
  double uniform(int i, double low, double high) const { return low + (high - low) * uniform(i); }
  int index(int i, int count) const {  // 0 .. count-1
    return static_cast<int>(std::uint64_t{word(i)} * static_cast<unsigned>(count) >> 32);
  }
  // Returns a normal number by Box and Muller, from words i and i + 1.
  double normal(int i) const {
    return std::sqrt(-2 * std::log((word(i) + 0.5) * 0x1p-32)) *
           std::cos(2 * std::numbers::pi * uniform(i + 1));
  }

 private:
  PhiloxKey key_;
  std::uint64_t first_;  // first group of the sample
};

// timm's only set of weights, in the order of AugmentOp, in thousandths.
constexpr std::array<double, kRandAugmentOps> kWeights = {25, 5, 0,  300, 0,   5,   5,  25,
                                                          5,  5, 25, 200, 200, 100, 100};

// Draws an operation that was not drawn yet, by weight.
int draw_weighted(double uniform, std::array<double, kRandAugmentOps>& weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  double at = uniform * sum;
  int chosen = -1;
  for (int i = 0; i < kRandAugmentOps; ++i) {
    const double w = weights[static_cast<std::size_t>(i)];
    if (w == 0) continue;
    chosen = i;
    if (at < w) break;
    at -= w;
  }
  weights[static_cast<std::size_t>(chosen)] = 0;
  return chosen;
}

AugmentDraw draw_rand(const RandAugmentPolicy& policy, bool random_filter, const Words& words) {
  AugmentDraw draw;
  auto weights = kWeights;
  for (int i = 0; i < policy.ops; ++i) {
    const int at = 8 * i;
    const int op = policy.weighted ? draw_weighted(words.uniform(at), weights)
                                   : words.index(at, kRandAugmentOps);
    if (words.uniform(at + 1) >= 0.5) continue;
    double magnitude = policy.magnitude;
    if (policy.magnitude_std > 0) magnitude += policy.magnitude_std * words.normal(at + 2);
    magnitude = std::clamp(magnitude, 0.0, 10.0);
    const bool negate = words.uniform(at + 4) >= 0.5;
    const auto which = static_cast<AugmentOp>(op);
    std::optional<AffineFilter> filter;
    if (random_filter) {
      filter = words.index(at + 5, 2) == 0 ? AffineFilter::kBilinear : AffineFilter::kBicubic;
    }
    draw.add(which, rand_augment_argument(which, magnitude, policy.increasing, negate), filter);
  }
  return draw;
}

AugmentDraw draw_three(const Words& words) {
  AugmentDraw draw;
  switch (words.index(0, 3)) {
    case 0: draw.add(AugmentOp::kGrayscale, 0); break;
    case 1: draw.add(AugmentOp::kSolarize, 128); break;
    default: draw.add(AugmentOp::kGaussianBlur, words.uniform(1, 0.1, 2.0));
  }
  return draw;
}

void apply_step(const AugmentStep& step, const AugmentGeometry& g, Image& image,
                ImageOpsWorkspace& ws) {
  const double arg = step.argument;
  const AffineFilter filter = step.filter.value_or(g.filter);
  const auto affine = [&](const AffineMatrix& m) {
    transform_affine(image, m, filter, g.fill, ws);
  };
  switch (step.op) {
    case AugmentOp::kAutoContrast: return auto_contrast(image);
    case AugmentOp::kEqualize: return equalize(image);
    case AugmentOp::kInvert: return invert(image);
    case AugmentOp::kRotate: return rotate(image, arg, filter, g.fill, ws);
    case AugmentOp::kPosterize: return posterize(image, static_cast<int>(arg));
    case AugmentOp::kSolarize: return solarize(image, static_cast<int>(arg));
    case AugmentOp::kSolarizeAdd: return solarize_add(image, static_cast<int>(arg));
    case AugmentOp::kColor: return adjust_color(image, arg);
    case AugmentOp::kContrast: return adjust_contrast(image, arg);
    case AugmentOp::kBrightness: return adjust_brightness(image, arg);
    case AugmentOp::kSharpness: return adjust_sharpness(image, arg, ws);
    case AugmentOp::kShearX: return affine({1, arg, 0, 0, 1, 0});
    case AugmentOp::kShearY: return affine({1, 0, 0, arg, 1, 0});
    case AugmentOp::kTranslateX: return affine({1, 0, arg * image.width, 0, 1, 0});
    case AugmentOp::kTranslateY: return affine({1, 0, 0, 0, 1, arg * image.height});
    case AugmentOp::kGrayscale: return to_grayscale(image);
    case AugmentOp::kGaussianBlur: return gaussian_blur(image, arg, ws);
    case AugmentOp::kHue: return adjust_hue(image, arg);
  }
}

constexpr const char* kLanguage =
    "a policy is `none`, `three`, or `rand` followed by any of -m0 .. -m10 (magnitude), -n1 .. -n8 "
    "(operations), -mstd0 .. -mstd10 (deviation of the magnitude), -inc0 or -inc1 (whether all "
    "grow with the magnitude) and -w0 (weighted choice), such as rand-m9-mstd0.5-inc1";

[[noreturn]] void fail_policy(const std::string& policy, const std::string& what) {
  throw ConfigError(cat("augment.policy `", policy, "`: ", what, "; ", kLanguage));
}

// Parses the number after the key of a part.
template <class T>
T number(const std::string& policy, std::string_view part, std::size_t key_size, T low, T high) {
  const std::optional<T> value = parse_number<T>(part.substr(key_size));
  if (!value || !(low <= *value && *value <= high))
    fail_policy(policy,
                cat("`", part, "` needs a ", std::is_integral_v<T> ? "whole number" : "number",
                    " from ", low, " to ", high, " after `", part.substr(0, key_size), "`"));
  return *value;
}

}  // namespace

AugmentGeometry geometry_for(const AugmentationSetup& setup) {
  return {affine_filter(setup.interpolation), fill_color(setup.mean), setup.random_interpolation};
}

void apply_steps(const AugmentDraw& draw, const AugmentGeometry& geometry, Image& image,
                 ImageOpsWorkspace& workspace) {
  for (const AugmentStep& step : draw) apply_step(step, geometry, image, workspace);
}

double rand_augment_argument(AugmentOp op, double magnitude, bool increasing, bool negate) {
  const double level = magnitude / 10;
  const auto either = [&](double v) { return negate ? -v : v; };
  switch (op) {
    case AugmentOp::kRotate: return either(level * 30);
    case AugmentOp::kPosterize: {
      const double bits = std::trunc(level * 4);
      return increasing ? 4 - bits : bits;
    }
    case AugmentOp::kSolarize: {
      const double threshold = std::trunc(level * 256);
      return increasing ? 256 - threshold : threshold;
    }
    case AugmentOp::kSolarizeAdd: return std::trunc(level * 110);
    case AugmentOp::kColor:
    case AugmentOp::kContrast:
    case AugmentOp::kBrightness:
    case AugmentOp::kSharpness: return increasing ? 1 + either(level * 0.9) : level * 1.8 + 0.1;
    case AugmentOp::kShearX:
    case AugmentOp::kShearY: return either(level * 0.3);
    case AugmentOp::kTranslateX:
    case AugmentOp::kTranslateY: return either(level * 0.45);
    default: return 0;
  }
}

RandAugmentPolicy parse_rand_augment(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, '-');
  if (parts.front() != "rand") fail_policy(text, cat("`", parts.front(), "` is not a policy"));
  RandAugmentPolicy policy;
  std::vector<std::string_view> seen;
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    const std::size_t size = std::min(part->find_first_of("+.0123456789"), part->size());
    const std::string_view key = part->substr(0, size);
    if (std::ranges::find(seen, key) != seen.end())
      fail_policy(text, cat("`", key, "` appears twice"));
    seen.push_back(key);
    if (key == "m") {
      policy.magnitude = number(text, *part, size, 0, 10);
    } else if (key == "n") {
      policy.ops = number(text, *part, size, 1, AugmentDraw::kMaxSteps);
    } else if (key == "mstd") {
      policy.magnitude_std = number(text, *part, size, 0.0, 10.0);
    } else if (key == "inc") {
      policy.increasing = number(text, *part, size, 0, 1) == 1;
    } else if (key == "w") {
      policy.weighted = number(text, *part, size, 0, 0) == 0;
    } else {
      fail_policy(text, cat("`", *part, "` is unknown"));
    }
  }
  return policy;
}

AutoAugment::AutoAugment(const std::string& policy, const AugmentGeometry& geometry)
    : geometry_(geometry) {
  if (policy == "none") return;
  if (policy == "three") {
    kind_ = Kind::kThree;
    return;
  }
  rand_ = parse_rand_augment(policy);
  kind_ = Kind::kRand;
}

AugmentDraw AutoAugment::draw(const SampleKey& key) const {
  const Words words(key, kPolicyStream);
  switch (kind_) {
    case Kind::kNone: return {};
    case Kind::kRand: return draw_rand(rand_, geometry_.random_filter, words);
    case Kind::kThree: return draw_three(words);
  }
  return {};
}

ColorJitter::ColorJitter(double brightness, double contrast, double saturation, double hue)
    : strength_{brightness, contrast, saturation, hue} {
  static constexpr const char* kNames[] = {"brightness", "contrast", "saturation", "hue"};
  for (std::size_t i = 0; i < 4; ++i) {
    const double most = i == 3 ? 0.5 : 100;
    if (!(0 <= strength_[i] && strength_[i] <= most))
      throw ConfigError(
          cat("colour jitter: ", kNames[i], " is ", strength_[i], "; it must lie in 0 .. ", most));
  }
}

bool ColorJitter::active() const {
  return std::ranges::any_of(strength_, [](double s) { return s > 0; });
}

AugmentDraw ColorJitter::draw(const SampleKey& key) const {
  static constexpr AugmentOp kOps[] = {AugmentOp::kBrightness, AugmentOp::kContrast,
                                       AugmentOp::kColor, AugmentOp::kHue};
  const Words words(key, kJitterStream);
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  for (int i = 3; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(words.index(i, i + 1))]);
  AugmentDraw draw;
  for (const std::size_t i : order) {
    const double s = strength_[i];
    if (s == 0) continue;
    const double low = i == 3 ? -s : std::max(0.0, 1 - s), high = i == 3 ? s : 1 + s;
    draw.add(kOps[i], words.uniform(4 + static_cast<int>(i), low, high));
  }
  return draw;
}

}  // namespace dtn
