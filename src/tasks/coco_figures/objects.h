// Objects of an evaluation by COCO's rules: truths of the annotations and detections of a model.
// No data set and no model is needed to make them. Boxes are in pixels of the original image.
#pragma once

#include <array>
#include <cstdint>

#include "data/coco/rle.h"

namespace dtn {

// The overlap that decides whether a detection finds a truth. It is an intersection over union of
// boxes, or of masks, which COCO calls `segm`.
enum class OverlapKind { kBoxes, kMasks };
// COCO's word for it.
inline const char* name_of(OverlapKind kind) {
  return kind == OverlapKind::kBoxes ? "bbox" : "segm";
}

// A box: x and y of its left upper corner, width, height. No value is rounded, and the width is
// right minus left without "+ 1".
using CocoBox = std::array<double, 4>;

// An object that is in the image.
struct TruthObject {
  std::int64_t category = 0;  // id, as in the annotations
  CocoBox box{};
  double area = 0;     // the annotation's own field, in pixels; it decides the range of sizes
  bool crowd = false;  // a group of objects in one region, which counts neither way
  Rle mask{};          // of the whole image; only read with kMasks
};

// An object that a model has found.
struct FoundObject {
  std::int64_t category = 0;  // id, as in the annotations
  CocoBox box{};
  double score = 0;
  Rle mask{};  // of the whole image; only read with kMasks
};

}  // namespace dtn
