// RoIAlign and the losses of object detectors (Lin et al., "Focal loss for dense object detection",
// ICCV 2017; He et al., "Mask R-CNN", ICCV 2017).
#pragma once

#include <vector>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// One level of a feature pyramid.
struct RoiLevel {
  Variable features;  // [B, H W, C], tokens in raster order
  std::int64_t grid_h, grid_w;
  double scale;  // cells per pixel of the boxes: 1 / stride
};

// Regions of interest, on the device of the features.
struct Rois {
  Tensor image;  // [R] int64 in [0, B)
  Tensor level;  // [R] int64, index of the level that a region reads
  Tensor boxes;  // [R, 4] float32: x1, y1, x2, y2 in pixels
};

// Most levels of roi_align().
inline constexpr int kRoiLevels = 8;

// Averages the features in size x size bins of each box: [R, size size, C], bins in raster order.
// This is RoIAlign with the half-pixel shift. A bin takes ceil(side / size) bilinear samples along
// each axis. Samples more than one cell outside of the grid read 0. An empty box gives 0. The
// gradient flows to the features only, and does not depend on the number of threads. On the CPU,
// throws Error for an image or a level out of range; a GPU gives NaN.
Variable roi_align(Context&, const std::vector<RoiLevel>& levels, const Rois& rois,
                   std::int64_t size);

// Label of an anchor that is background.
inline constexpr std::int64_t kBackground = -1;
// Label of an anchor that no loss sees.
inline constexpr std::int64_t kIgnored = -2;

// Targets of the anchors of a batch, on the device of the outputs. A level of the pyramid has the
// n anchors from `first` on.
struct AnchorTargets {
  Tensor labels;           // [B, N] int64: a class, kBackground or kIgnored
  Tensor deltas;           // [B, N, 4] accumulator type; only box_loss() reads it
  std::int64_t first = 0;  // first + n <= N
};

// Form of the focal loss.
struct FocalOptions {
  double alpha = 0.25;  // weight of positives; negatives have 1 - alpha
  double gamma = 2;     // exponent of the probability of error, at least 0
};

// Focal loss of all classes of all anchors that are not ignored, [1] accumulator type:
//     scale sum (alpha t + (1 - alpha) (1 - t)) q^gamma BCE(z, t), q = |t - sigmoid(z)|
// logits [B, n, K]; t is 1 for the class of the anchor, else 0; scale [1] accumulator type, on the
// device, has no gradient. Gamma 0 and alpha 1/2 give half the binary cross-entropy. The gradient
// is written over the logits if nothing else uses their memory. On the CPU, throws Error for a
// label outside [-2, K); a GPU gives NaN.
Variable focal_loss(Context&, const Variable& logits, const AnchorTargets& targets,
                    const Tensor& scale, const FocalOptions& options = {});

// L1 loss of the box deltas of anchors with a class, [1] accumulator type:
//     scale sum |d - d*|
// deltas [B, n, 4]; scale as in focal_loss(). The gradient where d = d* is 0.
Variable box_loss(Context&, const Variable& deltas, const AnchorTargets& targets,
                  const Tensor& scale);

namespace reference {
Variable roi_align(Context&, const std::vector<RoiLevel>& levels, const Rois& rois,
                   std::int64_t size);
Variable focal_loss(Context&, const Variable& logits, const AnchorTargets& targets,
                    const Tensor& scale, const FocalOptions& options = {});
Variable box_loss(Context&, const Variable& deltas, const AnchorTargets& targets,
                  const Tensor& scale);
}  // namespace reference
}  // namespace dtn::ops
