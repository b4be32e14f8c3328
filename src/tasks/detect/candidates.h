// Candidates for detections, from which non-maximum suppression (NMS) chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "tasks/detect/detection.h"

namespace dtn {

struct Candidates {
  std::vector<Box> boxes;
  std::vector<float> scores;
  std::vector<std::int32_t> labels;

  std::size_t size() const { return boxes.size(); }
  // Adds a candidate, unless its score is NaN or a side of its box is not finite.
  void add(const Box& box, float score, std::int32_t label = 0);
};

// Returns the candidates that NMS leaves of each class, by falling score: rule.most at most. Of
// equal scores the candidate that was added first comes first.
std::vector<Detection> best_detections(const Candidates& candidates, const DetectionRule& rule);

}  // namespace dtn
