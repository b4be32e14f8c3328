#include "tasks/detect/dense_detections.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"
#include "tasks/boxes/box_deltas.h"
#include "tasks/detect/candidates.h"

namespace dtn {
namespace {

// Margin for the rounding of logarithms and exponentials in float64.
constexpr double kLogitMargin = 1e-3;

float sigmoid(float z) { return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(z)))); }

// Returns a bound below every logit whose score is above `score`. The sigmoid rises, and a float
// above `score` is the rounding of a number above it. So the bound is the inverse of the sigmoid.
float least_logit(float score) {
  DTN_CHECK(0 <= score && score < 1, "the score of a detection must be in [0, 1), not ", score);
  const double s = score;
  return static_cast<float>(std::log(s) - std::log1p(-s) - kLogitMargin);
}

// An anchor of which a class may have a score above the threshold.
struct RankedAnchor {
  std::size_t anchor;
  float logit;  // of its best class
};

// Returns the anchors with a logit above `least`. Most anchors have none, and the loop over their
// logits has no branch.
std::vector<RankedAnchor> anchors_above(const DenseLevel& level, std::size_t classes, float least) {
  std::vector<RankedAnchor> above;
  for (std::size_t i = 0; i < level.anchors.size(); ++i) {
    const float* logits = level.classes.data() + i * classes;
    int any = 0;
    for (std::size_t k = 0; k < classes; ++k) any |= static_cast<int>(logits[k] > least);
    if (!any) continue;
    float best = least;
    for (std::size_t k = 0; k < classes; ++k) best = logits[k] > best ? logits[k] : best;
    above.push_back({i, best});
  }
  return above;
}

// Returns the anchors with the largest logits, at most `most`, in the order of the anchors. The
// sigmoid rises, so logits rank anchors as scores do. An anchor without a score above the threshold
// adds nothing, so it does not matter that it takes no place here.
std::vector<RankedAnchor> best_anchors(std::vector<RankedAnchor> anchors, std::int64_t most) {
  const auto count = static_cast<std::size_t>(most);
  if (anchors.size() <= count) return anchors;
  const auto before = [](const RankedAnchor& a, const RankedAnchor& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.anchor < b.anchor;
  };
  std::ranges::nth_element(anchors, anchors.begin() + static_cast<std::ptrdiff_t>(count), before);
  anchors.resize(count);
  std::ranges::sort(anchors, {}, &RankedAnchor::anchor);
  return anchors;
}

void add_level(const DenseLevel& level, const ResizedImage& image, const DetectionRule& rule,
               Candidates& candidates) {
  const std::size_t classes = level.class_count();
  const float least = least_logit(rule.score);
  for (const RankedAnchor& ranked :
       best_anchors(anchors_above(level, classes, least), rule.per_level)) {
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

std::size_t DenseLevel::class_count() const {
  const std::size_t n = anchors.size(), count = n > 0 ? classes.size() / n : 0;
  DTN_CHECK(classes.size() == count * n && deltas.size() == 4 * n, "a level of ", n,
            " anchors has ", classes.size(), " logits and ", deltas.size(), " deltas");
  return count;
}

std::vector<Detection> dense_detections(std::span<const DenseLevel> levels,
                                        const ResizedImage& image, const DetectionRule& rule) {
  Candidates candidates;
  for (const DenseLevel& level : levels) add_level(level, image, rule, candidates);
  return best_detections(candidates, rule);
}

}  // namespace dtn
