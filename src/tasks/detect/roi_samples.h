// Regions of a training image for the second stage of Mask R-CNN, and their targets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasks/boxes/assignment.h"
#include "tasks/boxes/box_deltas.h"
#include "tasks/boxes/sample_boxes.h"

namespace dtn {

struct RoiRule {
  std::int64_t classes;  // K
  BoxSampling sampling{512, 128};
  AssignmentRule assignment = kRoiRule;
};

// Truths of an image, in pixels of the resized image.
struct RoiTruths {
  std::span<const Box> boxes;             // [n], with a positive width and height
  std::span<const std::int64_t> classes;  // [n]
};

// The sampled regions: P positive ones first, then the background; R together.
struct RoiSamples {
  std::vector<Box> boxes;            // [R]
  std::vector<std::int64_t> labels;  // [R]: the class of the truth, or K for the background
  std::vector<std::int64_t> truths;  // [P]: index of the truth
  std::vector<BoxDeltas> deltas;     // [P]: from the region to the truth, in kRoiUnits
};

// Puts the truths in front of the proposals, assigns all of these boxes to the truths, and samples
// them, see assign_boxes() and sample_boxes() with SampledStage::kProposals. Throws Error if boxes
// and classes of the truths differ in number.
RoiSamples roi_samples(std::span<const Box> proposals, const RoiTruths& truths, const RoiRule& rule,
                       const SampleKey& key);

}  // namespace dtn
