#include "tasks/detect/roi_detections.h"

#include <algorithm>
#include <cmath>

#include "tasks/detect/box_deltas.h"
#include "tasks/detect/dense_detections.h"

namespace dtn {
namespace {

// Writes the softmax of a row. Returns false if a logit is not finite.
bool write_softmax(std::span<const float> logits, std::vector<float>& to) {
  const float largest = std::ranges::max(logits);
  double sum = 0;
  to.clear();
  for (const float z : logits) {
    if (!std::isfinite(z)) return false;
    to.push_back(std::exp(z - largest));
    sum += to.back();
  }
  for (float& p : to) p = static_cast<float>(p / sum);
  return true;
}

}  // namespace

std::vector<Detection> roi_detections(const RoiOutputs& outputs, const ResizedImage& image,
                                      const DetectionRule& rule) {
  if (outputs.proposals.empty()) return {};
  const std::size_t columns = outputs.classes.size() / outputs.proposals.size();
  const std::size_t classes = columns - 1;
  Candidates candidates;
  std::vector<float> scores;
  for (std::size_t r = 0; r < outputs.proposals.size(); ++r) {
    if (!write_softmax(outputs.classes.subspan(r * columns, columns), scores)) continue;
    for (std::size_t k = 0; k < classes; ++k) {
      if (!(scores[k] > rule.score)) continue;
      const float* d = outputs.deltas.data() + 4 * (r * classes + k);
      const Box box = decode_box(outputs.proposals[r], {d[0], d[1], d[2], d[3]}, kRoiUnits);
      candidates.add(in_original(box, image), scores[k], static_cast<std::int32_t>(k));
    }
  }
  std::vector<Detection> found;
  for (const std::int64_t i : best_of(candidates, rule)) {
    const auto k = static_cast<std::size_t>(i);
    found.push_back({candidates.boxes[k], candidates.scores[k], candidates.labels[k]});
  }
  return found;
}

Box in_resized(const Box& box, const ResizedImage& image) {
  const float sx = static_cast<float>(image.width) / static_cast<float>(image.original_width);
  const float sy = static_cast<float>(image.height) / static_cast<float>(image.original_height);
  return {box.x1 * sx, box.y1 * sy, box.x2 * sx, box.y2 * sy};
}

std::int64_t roi_level(const Box& box) {
  const double side = std::sqrt(static_cast<double>(box.x2 - box.x1) * (box.y2 - box.y1));
  const double level = std::floor(std::log2(side / 56 + 1e-6));
  return level >= 0 ? static_cast<std::int64_t>(std::min(level, 3.0)) : 0;
}

}  // namespace dtn
