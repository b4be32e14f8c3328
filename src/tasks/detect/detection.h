// Objects that a detector has found.
#pragma once

#include <cstdint>

#include "tasks/detect/boxes.h"

namespace dtn {

struct Detection {
  Box box;  // in pixels of the original image
  float score;
  std::int32_t label;
};

// Numbers and thresholds of testing.
struct DetectionRule {
  std::int64_t per_level = 1000;  // anchors of a level, by the score of their best class
  float score = 0.05f;            // a detection has a higher one
  double overlap = 0.5;           // NMS removes a detection of its class with a larger IoU
  std::int64_t most = 100;        // detections of an image
};

// An image as the model sees it, without padding, and as it is in the file.
struct ResizedImage {
  std::int64_t height, width;
  std::int64_t original_height, original_width;
};

// Returns the box cut at the resized image, in pixels of the original one.
Box in_original(const Box& box, const ResizedImage& image);

}  // namespace dtn
