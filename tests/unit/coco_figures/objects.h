// Objects for tests of COCO's figures.
#pragma once

#include <utility>

#include "tasks/coco_figures/objects.h"

namespace dtn::test {

// A truth whose area is that of its box.
inline TruthObject truth(std::int64_t category, CocoBox box, bool crowd = false) {
  return {category, box, box[2] * box[3], crowd, {}};
}
inline TruthObject truth_of_area(std::int64_t category, CocoBox box, double area) {
  return {category, box, area, false, {}};
}
inline FoundObject found(std::int64_t category, CocoBox box, double score) {
  return {category, box, score, {}};
}

}  // namespace dtn::test
