// From the outputs of RetinaNet to detections.
#pragma once

#include <span>
#include <vector>

#include "tasks/detect/detection.h"

namespace dtn {

// The outputs of a level for one image and n anchors.
struct DenseLevel {
  std::span<const float> classes;  // [n, K] logits
  std::span<const float> deltas;   // [n, 4]
  std::span<const Box> anchors;    // [n]
};

// Returns the detections of an image, by falling score: of each level the anchors with the best
// scores, decoded, cut at the image and brought to original pixels; of these the scores above
// rule.score; of these what NMS leaves of each class. A logit that is not a number counts as no
// detection.
std::vector<Detection> dense_detections(std::span<const DenseLevel> levels,
                                        const ResizedImage& image, const DetectionRule& rule = {});

// Candidates for detections.
struct Candidates {
  std::vector<Box> boxes;
  std::vector<float> scores;
  std::vector<std::int32_t> labels;

  void add(const Box& box, float score, std::int32_t label);
};

// Returns the indices of the candidates that NMS leaves, by falling score: rule.most at most.
// Candidates whose box is not finite are dropped.
std::vector<std::int64_t> best_of(const Candidates& candidates, const DetectionRule& rule);

}  // namespace dtn
