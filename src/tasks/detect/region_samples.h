// The regions of a batch that train the heads of Mask R-CNN's second stage.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasks/detect/batch.h"
#include "tasks/detect/box_deltas.h"

namespace dtn {

// A region with an object.
struct ObjectRegion {
  std::int64_t region;  // index in RegionSamples::boxes
  std::int64_t truth;   // index in the truths of its image
  std::int64_t label;
  BoxDeltas deltas;  // from the region to the truth, in kRoiUnits
};

struct RegionSamples {
  std::vector<Box> boxes;             // in pixels of the resized images
  std::vector<std::int64_t> images;   // index of the image of each box
  std::vector<std::int64_t> classes;  // label of each box; `background` without an object
  std::vector<ObjectRegion> objects;
};

// Adds the samples of image `index` of a batch: the truths and the proposals are assigned to the
// truths by kRoiRule, and at most `most` of them are sampled, a quarter of them with an object.
void add_regions(const BatchImage& image, std::int64_t index, std::span<const Box> proposals,
                 std::int64_t most, std::int64_t background, RegionSamples& samples);

}  // namespace dtn
