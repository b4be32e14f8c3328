#include "tasks/detect/dense_detections.h"

#include <algorithm>
#include <cmath>

#include "tasks/detect/box_deltas.h"
#include "tasks/detect/nms.h"

namespace dtn {
namespace {

float sigmoid(float z) { return 1 / (1 + std::exp(-z)); }

// A logit slightly below that of the score: only logits above it can have a higher score.
float least_logit(float score) { return std::log(score / (1 - score)) - 1e-3f; }

struct RankedAnchor {
  std::size_t anchor;
  float logit;  // of its best class
};

// Returns the anchors of which a class may be above the score, at most rule.per_level of them, in
// the order of the anchors.
std::vector<RankedAnchor> best_anchors(const DenseLevel& level, std::size_t classes,
                                       const DetectionRule& rule) {
  const float least = least_logit(rule.score);
  std::vector<RankedAnchor> ranked;
  for (std::size_t i = 0; i < level.anchors.size(); ++i) {
    const float* logits = level.classes.data() + i * classes;
    float best = -INFINITY;
    for (std::size_t k = 0; k < classes; ++k) best = logits[k] > best ? logits[k] : best;
    if (best > least) ranked.push_back({i, best});
  }
  const auto most = static_cast<std::size_t>(rule.per_level);
  if (ranked.size() <= most) return ranked;
  const auto before = [](const RankedAnchor& a, const RankedAnchor& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.anchor < b.anchor;
  };
  std::ranges::nth_element(ranked, ranked.begin() + static_cast<std::ptrdiff_t>(most), before);
  ranked.resize(most);
  std::ranges::sort(ranked, {}, &RankedAnchor::anchor);
  return ranked;
}

void add_level(const DenseLevel& level, const ResizedImage& image, const DetectionRule& rule,
               Candidates& candidates) {
  if (level.anchors.empty()) return;
  const std::size_t classes = level.classes.size() / level.anchors.size();
  const float least = least_logit(rule.score);
  for (const RankedAnchor& ranked : best_anchors(level, classes, rule)) {
    const float* logits = level.classes.data() + ranked.anchor * classes;
    const float* d = level.deltas.data() + 4 * ranked.anchor;
    const Box box =
        in_original(decode_box(level.anchors[ranked.anchor], {d[0], d[1], d[2], d[3]}), image);
    for (std::size_t k = 0; k < classes; ++k) {
      if (!(logits[k] > least)) continue;
      const float score = sigmoid(logits[k]);
      if (score > rule.score) candidates.add(box, score, static_cast<std::int32_t>(k));
    }
  }
}

}  // namespace

void Candidates::add(const Box& box, float score, std::int32_t label) {
  const bool finite = std::isfinite(box.x1) && std::isfinite(box.y1) && std::isfinite(box.x2) &&
                      std::isfinite(box.y2) && std::isfinite(score);
  if (!finite) return;
  boxes.push_back(box);
  scores.push_back(score);
  labels.push_back(label);
}

std::vector<std::int64_t> best_of(const Candidates& candidates, const DetectionRule& rule) {
  return nms_by_class(candidates.boxes, candidates.scores, candidates.labels, rule.overlap,
                      rule.most);
}

std::vector<Detection> dense_detections(std::span<const DenseLevel> levels,
                                        const ResizedImage& image, const DetectionRule& rule) {
  Candidates candidates;
  for (const DenseLevel& level : levels) add_level(level, image, rule, candidates);
  std::vector<Detection> found;
  for (const std::int64_t i : best_of(candidates, rule)) {
    const auto k = static_cast<std::size_t>(i);
    found.push_back({candidates.boxes[k], candidates.scores[k], candidates.labels[k]});
  }
  return found;
}

}  // namespace dtn
