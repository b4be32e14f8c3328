#include "tasks/detect/proposals.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tasks/detect/box_deltas.h"
#include "tasks/detect/nms.h"

namespace dtn {
namespace {

// Returns the anchors with the largest logits, by falling logit.
std::vector<std::size_t> best_logits(std::span<const float> logits, std::int64_t most) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) order.push_back(i);
  }
  const auto before = [&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const std::size_t count = std::min(order.size(), static_cast<std::size_t>(most));
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), before);
  order.resize(count);
  return order;
}

// Adds what NMS leaves of a level. Logits order proposals as their sigmoids do.
void add_level(const DenseLevel& level, const ResizedImage& image, const ProposalRule& rule,
               Candidates& kept) {
  const auto height = static_cast<float>(image.height), width = static_cast<float>(image.width);
  Candidates all;
  for (const std::size_t i : best_logits(level.classes, rule.per_level)) {
    const float* d = level.deltas.data() + 4 * i;
    const Box box = clip_box(decode_box(level.anchors[i], {d[0], d[1], d[2], d[3]}), width, height);
    if (box.x1 < box.x2 && box.y1 < box.y2) all.add(box, level.classes[i], 0);
  }
  for (const std::int64_t i : nms(all.boxes, all.scores, rule.overlap)) {
    const auto k = static_cast<std::size_t>(i);
    kept.add(all.boxes[k], all.scores[k], 0);
  }
}

}  // namespace

std::vector<Box> proposals_of(std::span<const DenseLevel> levels, const ResizedImage& image,
                              const ProposalRule& rule) {
  Candidates kept;
  for (const DenseLevel& level : levels) add_level(level, image, rule, kept);
  std::vector<std::size_t> order(kept.scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return kept.scores[i]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(rule.most)));
  std::vector<Box> proposals;
  for (const std::size_t i : order) proposals.push_back(kept.boxes[i]);
  return proposals;
}

}  // namespace dtn
