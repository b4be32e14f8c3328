// Boxes as deltas from anchors or proposals.
#pragma once

#include <array>

#include "tasks/boxes/boxes.h"

namespace dtn {

using BoxDeltas = std::array<float, 4>;  // dx, dy, dw, dh

// Units of the deltas: a delta is a difference divided by its unit.
using DeltaUnits = std::array<double, 4>;
inline constexpr DeltaUnits kDenseUnits{1, 1, 1, 1};        // of dense heads
inline constexpr DeltaUnits kRoiUnits{0.1, 0.1, 0.2, 0.2};  // of the second stage

// Returns dx = (centre of the box - centre of the anchor) / width of the anchor, dy with heights,
// dw = ln(width of the box / width of the anchor), and dh, each divided by its unit. Both boxes
// need a positive width and height.
BoxDeltas encode_box(const Box& anchor, const Box& box, const DeltaUnits& units = kDenseUnits);

// The inverse. dw and dh are clamped to +-ln(1000 / 16), after the multiplication by their units.
// The box may stick out of the image, see clip_box().
Box decode_box(const Box& anchor, const BoxDeltas& deltas, const DeltaUnits& units = kDenseUnits);

}  // namespace dtn
