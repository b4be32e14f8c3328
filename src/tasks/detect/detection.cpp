#include "tasks/detect/detection.h"

namespace dtn {

Box in_original(const Box& box, const ResizedImage& image) {
  const Box cut = clip_box(box, static_cast<float>(image.width), static_cast<float>(image.height));
  const float sx = image.scale_x(), sy = image.scale_y();
  return {cut.x1 / sx, cut.y1 / sy, cut.x2 / sx, cut.y2 / sy};
}

Box in_resized(const Box& box, const ResizedImage& image) {
  const float sx = image.scale_x(), sy = image.scale_y();
  return {box.x1 * sx, box.y1 * sy, box.x2 * sx, box.y2 * sy};
}

}  // namespace dtn
