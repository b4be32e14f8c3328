// From the outputs of Mask R-CNN's box head to detections.
#pragma once

#include <span>
#include <vector>

#include "tasks/detect/detection.h"

namespace dtn {

// The outputs for the R proposals of one image and K classes.
struct RoiOutputs {
  std::span<const Box> proposals;  // in pixels of the resized image
  std::span<const float> classes;  // [R, K + 1] logits, the background last
  std::span<const float> deltas;   // [R, 4 K], in kRoiUnits
};

// Returns the detections of an image, by falling score: for each class its box, cut at the image
// and brought to original pixels, with its softmax as score; of these the scores above rule.score;
// of these what NMS leaves of each class. Rows with a logit that is not finite count as none.
std::vector<Detection> roi_detections(const RoiOutputs& outputs, const ResizedImage& image,
                                      const DetectionRule& rule = {});

// Returns the box of a detection in pixels of the resized image.
Box in_resized(const Box& box, const ResizedImage& image);

// The level of the pyramid, 0 to 3 for the strides 4 to 32, from which a region takes its features:
//    floor(log2(sqrt(width height) / 56 + 1e-6)), at least 0 and at most 3
std::int64_t roi_level(const Box& box);

}  // namespace dtn
