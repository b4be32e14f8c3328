// Learned positions on a square grid, brought to a grid of another side.
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/core/tensor.h"

namespace dtn {

// Side of a square number of tokens, or 0.
std::int64_t square_side(std::int64_t tokens);

// table [from * from, C] float32 -> [to * to, C], channel by channel, pixel centres aligned.
Tensor resize_positions(const Tensor& table, std::int64_t to, PosResize rule);

}  // namespace dtn
