#include "tasks/detect/proposals.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtn/core/check.h"
#include "tasks/boxes/box_deltas.h"
#include "tasks/boxes/nms.h"
#include "tasks/detect/candidates.h"

namespace dtn {
namespace {

struct RankedLogit {
  float logit;
  std::size_t anchor;
};

// Returns the largest logits, by falling logit.
std::vector<RankedLogit> best_logits(std::span<const float> logits, std::int64_t most) {
  std::vector<RankedLogit> ranked;
  ranked.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) ranked.push_back({logits[i], i});
  }
  const auto before = [](const RankedLogit& a, const RankedLogit& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.anchor < b.anchor;
  };
  const std::size_t count = std::min(ranked.size(), static_cast<std::size_t>(most));
  std::ranges::nth_element(ranked, ranked.begin() + static_cast<std::ptrdiff_t>(count), before);
  ranked.resize(count);
  std::ranges::sort(ranked, before);
  return ranked;
}

// Adds the proposals that NMS leaves of a level.
void add_level(const DenseLevel& level, const ResizedImage& image, const ProposalRule& rule,
               Candidates& kept) {
  const std::size_t n = level.anchors.size(), classes = level.class_count();
  DTN_CHECK(n == 0 || classes == 1, "proposals have 1 class, not ", classes);
  const auto height = static_cast<float>(image.height), width = static_cast<float>(image.width);
  Candidates all;
  for (const RankedLogit& ranked : best_logits(level.classes, rule.per_level)) {
    const float* d = level.deltas.data() + 4 * ranked.anchor;
    const Box box =
        clip_box(decode_box(level.anchors[ranked.anchor], {d[0], d[1], d[2], d[3]}), width, height);
    if (box.x1 < box.x2 && box.y1 < box.y2) all.add(box, ranked.logit);
  }
  for (const std::int64_t i : nms(all.boxes, all.scores, rule.overlap, rule.most)) {
    const auto k = static_cast<std::size_t>(i);
    kept.add(all.boxes[k], all.scores[k]);
  }
}

}  // namespace

Proposals proposals_of(std::span<const DenseLevel> levels, const ResizedImage& image,
                       const ProposalRule& rule) {
  Candidates kept;
  for (const DenseLevel& level : levels) add_level(level, image, rule, kept);
  std::vector<std::size_t> order(kept.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return kept.scores[i]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(rule.most)));
  Proposals best;
  for (const std::size_t i : order) {
    best.boxes.push_back(kept.boxes[i]);
    best.scores.push_back(kept.scores[i]);
  }
  return best;
}

}  // namespace dtn
