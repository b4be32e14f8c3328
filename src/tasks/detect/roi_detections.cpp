#include "tasks/detect/roi_detections.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"
#include "tasks/boxes/box_deltas.h"
#include "tasks/detect/candidates.h"

namespace dtn {
namespace {

// Writes the softmax of a row. All values are NaN if a logit is NaN or +inf.
void write_softmax(std::span<const float> logits, std::vector<double>& to) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  to.clear();
  for (const float z : logits) {
    to.push_back(std::exp(z - largest));
    sum += to.back();
  }
  for (double& p : to) p /= sum;
}

}  // namespace

std::vector<Detection> roi_detections(const RoiOutputs& outputs, const ResizedImage& image,
                                      const DetectionRule& rule) {
  const std::size_t rois = outputs.proposals.size();
  if (rois == 0) return {};
  const std::size_t columns = outputs.classes.size() / rois, classes = columns - 1;
  DTN_CHECK(columns > 1 && outputs.classes.size() == columns * rois &&
                outputs.deltas.size() == 4 * classes * rois,
            "roi_detections: ", outputs.classes.size(), " logits and ", outputs.deltas.size(),
            " deltas for ", rois, " proposals");
  Candidates candidates;
  std::vector<double> scores;
  for (std::size_t r = 0; r < rois; ++r) {
    write_softmax(outputs.classes.subspan(r * columns, columns), scores);
    for (std::size_t k = 0; k < classes; ++k) {
      const auto score = static_cast<float>(scores[k]);
      if (!(score > rule.score)) continue;
      const float* d = outputs.deltas.data() + 4 * (r * classes + k);
      const Box box = decode_box(outputs.proposals[r], {d[0], d[1], d[2], d[3]}, kRoiUnits);
      candidates.add(in_original(box, image), score, static_cast<std::int32_t>(k));
    }
  }
  return best_detections(candidates, rule);
}

std::int64_t roi_level(const Box& box) {
  constexpr double kSideOfLevel0 = 56, kMostLevel = 3;
  const double w = static_cast<double>(box.x2) - box.x1, h = static_cast<double>(box.y2) - box.y1;
  const double level = std::floor(std::log2(std::sqrt(w * h) / kSideOfLevel0 + 1e-6));
  return level >= 0 ? static_cast<std::int64_t>(std::min(level, kMostLevel)) : 0;
}

}  // namespace dtn
