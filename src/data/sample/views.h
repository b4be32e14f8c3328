// Random views of an image for self-supervised and contrastive pre-training: what torchvision makes
// with RandomResizedCrop, RandomHorizontalFlip, ColorJitter, RandomGrayscale, Pillow's GaussianBlur
// and solarize, in this order and with the same pixels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "data/sample/image_ops.h"
#include "data/sample/random_crop.h"
#include "data/sample/resample.h"
#include "dtn/config/model_config.h"
#include "dtn/data/sample_key.h"

namespace dtn {

// Properties that a colour jitter changes.
enum class ColorProperty : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };

// The choices for one view, in the order in which they are applied.
struct ViewDraw {
  ImageRegion crop;  // of the whole image; it becomes the view
  bool flip = false;
  // Colour jitter: brightness, contrast and saturation are multiplied by the factors, and the hue
  // is turned by `hue` (-0.5 .. 0.5) of a full circle. Unset: the hue is not touched. (A turn by 0
  // still rounds the colours.)
  std::array<double, 3> factors{1, 1, 1};
  std::optional<double> hue;
  std::array<ColorProperty, 4> order{ColorProperty::kBrightness, ColorProperty::kContrast,
                                     ColorProperty::kSaturation, ColorProperty::kHue};
  bool gray = false;
  double sigma = 0;       // deviation of the Gaussian blur in pixels; 0: no blur
  bool solarize = false;  // inverts the values from 128
};

// The distribution of the choices for a view.
struct ViewAugment {
  AugmentConfig crop;  // only scale, ratio and hflip count
  // Ranges x of the jitter: factors of brightness, contrast and saturation are uniform in
  // [max(0, 1 - x), 1 + x], turns of the hue in [-x, x]. All 0: no jitter.
  std::array<double, 4> jitter{};
  double jitter_chance = 0.8;
  double gray = 0, blur = 0, solarize = 0;  // probabilities
};

// Draws the choices for view number `view` of a sample whose image has this size. The views of an
// image are independent, and none depends on the number of the others.
ViewDraw draw_view(const ViewAugment& augment, int width, int height, const SampleKey& key,
                   int view);

// Returns the filter that resizes this view.
Interpolation view_interpolation(TrainInterpolation interpolation, const SampleKey& key, int view);

// Applies all of a draw to a whole image. `out` becomes the view, of this size.
void apply(const ViewDraw& draw, const Image& image, const ImageSize& size, const Resampling& how,
           ResampleWorkspace& resample, ImageOpsWorkspace& ops, Image& out);

// Applies the part of a draw that follows the flip to a resized crop, in place. The result for a
// mirrored crop is the mirrored result, so the flip may follow.
void apply_colors(const ViewDraw& draw, Image& image, ImageOpsWorkspace& ops);

}  // namespace dtn
