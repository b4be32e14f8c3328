// Detections from the outputs of Mask R-CNN's box head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasks/detect/detection.h"

namespace dtn {

// Outputs for the R proposals of one image and K classes.
struct RoiOutputs {
  std::span<const Box> proposals;  // [R], in pixels of the resized image
  std::span<const float> classes;  // [R, K + 1] logits, the background last
  std::span<const float> deltas;   // [R, 4 K], in kRoiUnits
};

// Returns the detections of an image, by falling score:
//    the scores of a proposal: softmax of its K + 1 logits
//    for each class with a score above rule.score its box: decoded, cut at the resized image, in
//    original pixels
//    NMS for each class, and then the best rule.most of all classes
// A proposal with a logit that is NaN or +inf is dropped, and so is a box that is not finite after
// the cut. The mask head reads the boxes of the detections scaled up again: in_resized().
std::vector<Detection> roi_detections(const RoiOutputs& outputs, const ResizedImage& image,
                                      const DetectionRule& rule = {});

// Returns the level of the pyramid, 0 to 3 for the strides 4 to 32, from which a region takes its
// features; 0 for a box with a NaN.
//    floor(log2(sqrt(width height) / 56 + 1e-6)), at least 0 and at most 3
std::int64_t roi_level(const Box& box);

}  // namespace dtn
