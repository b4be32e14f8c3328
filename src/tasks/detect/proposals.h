// Proposals of Mask R-CNN from the outputs of its dense head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasks/detect/dense_detections.h"

namespace dtn {

struct ProposalRule {
  std::int64_t per_level;    // anchors of a level, by their logit
  double overlap = 0.7;      // NMS removes a proposal of its level with a larger IoU
  std::int64_t most = 1000;  // proposals of an image
};

inline constexpr ProposalRule kTrainingProposals{2000}, kTestingProposals{1000};

// Regions that may hold an object, by falling score.
struct Proposals {
  std::vector<Box> boxes;     // in pixels of the resized image
  std::vector<float> scores;  // logits
};

// Returns the proposals of an image from levels with one class:
//    of each level, the rule.per_level anchors with the largest logits
//    their boxes: decoded, cut at the resized image; those with a positive width and height
//    NMS within the level, and then the best rule.most of all levels
// The first anchor, and the first level, come first among equal logits. A logit that is NaN, and a
// box that is not finite after the cut, are dropped.
Proposals proposals_of(std::span<const DenseLevel> levels, const ResizedImage& image,
                       const ProposalRule& rule);

}  // namespace dtn
