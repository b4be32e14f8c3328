// Learned positions on a grid, brought to another grid.
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/core/tensor.h"

namespace dtn {

// Side of a square number of tokens, or 0.
std::int64_t square_side(std::int64_t tokens);

// How many tokens stand in a column and in a row.
struct PositionGrid {
  std::int64_t height, width;
  bool operator==(const PositionGrid&) const = default;
};

// table [from.height from.width, C] float32 -> [to.height to.width, C], channel by channel, pixel
// centres aligned.
Tensor resize_positions(const Tensor& table, PositionGrid from, PositionGrid to, PosResize rule);

}  // namespace dtn
