#include "tasks/detect/candidates.h"

#include <cmath>

#include "tasks/boxes/nms.h"

namespace dtn {

void Candidates::add(const Box& box, float score, std::int32_t label) {
  const bool finite = std::isfinite(box.x1) && std::isfinite(box.y1) && std::isfinite(box.x2) &&
                      std::isfinite(box.y2);
  if (!finite || std::isnan(score)) return;
  boxes.push_back(box);
  scores.push_back(score);
  labels.push_back(label);
}

std::vector<Detection> best_detections(const Candidates& candidates, const DetectionRule& rule) {
  std::vector<Detection> best;
  for (const std::int64_t i : nms_by_class(candidates.boxes, candidates.scores, candidates.labels,
                                           rule.overlap, rule.most)) {
    const auto k = static_cast<std::size_t>(i);
    best.push_back({candidates.boxes[k], candidates.scores[k], candidates.labels[k]});
  }
  return best;
}

}  // namespace dtn
