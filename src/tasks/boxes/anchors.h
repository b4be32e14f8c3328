// Anchors of dense heads. Anchors are ordered level, row, column, a; inside a cell, a goes over the
// ratios and then over the sizes: a = ratio index x sizes + size index.
#pragma once

#include <cstdint>
#include <vector>

#include "tasks/boxes/boxes.h"

namespace dtn {

// Anchors of the cells of one level. Cell (i, j) is centred on (j stride, i stride), its corner.
struct AnchorLevel {
  std::int64_t stride;         // pixels per cell
  std::vector<double> sizes;   // square root of the area, pixels
  std::vector<double> ratios;  // height / width

  std::int64_t anchors() const { return static_cast<std::int64_t>(sizes.size() * ratios.size()); }
};

struct CellGrid {
  std::int64_t h, w;
  bool operator==(const CellGrid&) const = default;
};

// Levels P3 to P7 of RetinaNet: sizes stride x 4 x 2^(0, 1/3, 2/3), ratios 1/2, 1, 2.
std::vector<AnchorLevel> retinanet_anchors();
// Levels P2 to P6 of the region proposal network: size stride x 8, ratios 1/2, 1, 2.
std::vector<AnchorLevel> rpn_anchors();

// Returns the anchors of one cell, centred on (0, 0): width = size / sqrt(ratio), height = size x
// sqrt(ratio).
std::vector<Box> cell_anchors(const AnchorLevel& level);

// Returns the grid of each level for an image of this size in pixels: ceil(size / stride).
std::vector<CellGrid> grids_of(const std::vector<AnchorLevel>& levels, std::int64_t height,
                               std::int64_t width);

// Returns all anchors of the grids. They may stick out of the image.
std::vector<Box> anchors_of(const std::vector<AnchorLevel>& levels,
                            const std::vector<CellGrid>& grids);

// Returns 1 for the anchors of `grids` whose cell is inside `own`, the grids of one image of the
// batch, else 0.
std::vector<std::uint8_t> anchors_inside(const std::vector<AnchorLevel>& levels,
                                         const std::vector<CellGrid>& grids,
                                         const std::vector<CellGrid>& own);

}  // namespace dtn
