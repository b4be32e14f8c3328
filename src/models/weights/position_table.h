// Resamples learned positions from one grid to another.
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/core/tensor.h"

namespace dtn {

// Returns the side of a square number of tokens, or 0 if the number is not square.
std::int64_t square_side(std::int64_t tokens);

// Numbers of tokens in a column and in a row.
struct PositionGrid {
  std::int64_t height, width;
  bool operator==(const PositionGrid&) const = default;
  std::int64_t tokens() const { return height * width; }
};

// x [outer, from.height from.width, inner] float32 -> [outer, to.height to.width, inner]. Resamples
// each grid separately, with pixel centres aligned.
Tensor resize_positions(const Tensor& x, PositionGrid from, PositionGrid to, PosResize rule);

// table [(2 from - 1)^2, H] float32 -> [(2 to - 1)^2, H], where `from` and `to` are window sides.
// Works like timm's resize_rel_pos_bias_table. Offset 0 stays. If the window grows, the old offsets
// move outwards in a geometric progression until the largest covers the new window; values in
// between are interpolated linearly.
Tensor resize_window_biases(const Tensor& table, std::int64_t from, std::int64_t to);

}  // namespace dtn
