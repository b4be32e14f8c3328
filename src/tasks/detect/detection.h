// Objects that a detector has found in an image.
#pragma once

#include <cstdint>

#include "tasks/boxes/boxes.h"

namespace dtn {

struct Detection {
  Box box;  // in pixels of the original image
  float score;
  std::int32_t label;  // a class, from 0 on
};

// Numbers and thresholds of testing.
struct DetectionRule {
  std::int64_t per_level = 1000;  // anchors of a level, by the score of their best class
  float score = 0.05f;            // a detection has a score above it
  double overlap = 0.5;           // NMS removes a detection with a larger IoU, class by class
  std::int64_t most = 100;        // detections of an image
};

// Sizes of an image in pixels: as the model sees it, without padding, and in the file.
struct ResizedImage {
  std::int64_t height, width;
  std::int64_t original_height, original_width;

  // Scale factors, new / old.
  float scale_x() const { return static_cast<float>(width) / static_cast<float>(original_width); }
  float scale_y() const { return static_cast<float>(height) / static_cast<float>(original_height); }
};

// Returns the box cut at the resized image, in pixels of the original one.
Box in_original(const Box& box, const ResizedImage& image);

// Returns the box of a detection in pixels of the resized image.
Box in_resized(const Box& box, const ResizedImage& image);

}  // namespace dtn
