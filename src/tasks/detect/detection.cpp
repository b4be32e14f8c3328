#include "tasks/detect/detection.h"

namespace dtn {

Box in_original(const Box& box, const ResizedImage& image) {
  const auto height = static_cast<float>(image.height), width = static_cast<float>(image.width);
  const Box cut = clip_box(box, width, height);
  const float sx = width / static_cast<float>(image.original_width);
  const float sy = height / static_cast<float>(image.original_height);
  return {cut.x1 / sx, cut.y1 / sy, cut.x2 / sx, cut.y2 / sy};
}

}  // namespace dtn
