// Detections from the outputs of a dense head (RetinaNet).
#pragma once

#include <span>
#include <vector>

#include "tasks/detect/detection.h"

namespace dtn {

// Outputs of a level of the pyramid for one image: n anchors and K classes.
struct DenseLevel {
  std::span<const float> classes;  // [n, K] logits
  std::span<const float> deltas;   // [n, 4], in kDenseUnits
  std::span<const Box> anchors;    // [n], in pixels of the resized image

  // Returns K. Throws Error if the sizes do not fit.
  std::size_t class_count() const;
};

// Returns the detections of an image, by falling score:
//    of each level, the rule.per_level anchors with the best scores: sigmoids of the best classes
//    their boxes: decoded, cut at the resized image, in original pixels
//    the classes of these anchors with a score above rule.score
//    NMS for each class, and then the best rule.most of all classes
// The first of equal scores is taken. A logit that is NaN counts as score 0. A box that is not
// finite after the cut is dropped. rule.score is in [0, 1); throws Error otherwise.
std::vector<Detection> dense_detections(std::span<const DenseLevel> levels,
                                        const ResizedImage& image, const DetectionRule& rule = {});

}  // namespace dtn
