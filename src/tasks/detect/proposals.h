// From the outputs of Mask R-CNN's dense head to proposals.
#pragma once

#include <span>
#include <vector>

#include "tasks/detect/dense_detections.h"

namespace dtn {

struct ProposalRule {
  std::int64_t per_level;    // anchors of a level, by their score
  double overlap = 0.7;      // of NMS within a level
  std::int64_t most = 1000;  // proposals of an image
};

inline constexpr ProposalRule kTrainingProposals{2000}, kTestingProposals{1000};

// Returns the proposals of an image, by falling score: of each level the best anchors (K is 1),
// decoded and cut at the image; of those with a positive width and height what NMS leaves; of all
// levels together the best. A logit that is not a number counts as no proposal.
std::vector<Box> proposals_of(std::span<const DenseLevel> levels, const ResizedImage& image,
                              const ProposalRule& rule);

}  // namespace dtn
