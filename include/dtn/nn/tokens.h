// Tokens and how they are arranged: what passes between the parts of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/autograd/variable.h"

namespace dtn {

// The arrangement of T tokens. A sequence is a grid of one row. Ahead of the grid, in raster order,
// there may be a prefix of tokens that stand nowhere in it, such as a class token.
struct TokenGrid {
  std::int64_t height = 1, width = 1, prefix = 0;
  // [B] int64: how many of the T tokens of each sample count, at least 1, where sequences are
  // padded at their ends; undefined: all.
  Tensor lengths{};

  std::int64_t tokens() const { return prefix + height * width; }
  bool padded() const { return lengths.defined(); }
  // Of the same shape, whatever counts.
  bool operator==(const TokenGrid& other) const {
    return height == other.height && width == other.width && prefix == other.prefix;
  }
};

// A square where T is one, else a sequence.
TokenGrid square_or_sequence(std::int64_t tokens);

// x [B, extra + h w, C]: tokens of a grid in raster order, behind `extra` that stand nowhere in it.
struct Tokens {
  Variable x;
  TokenGrid grid;
  int extra = 0;
  Tensor lengths{};  // as in TokenGrid

  // The grid with those in front of it, which is how layers see it.
  TokenGrid arrangement() const { return {grid.height, grid.width, extra, lengths}; }
};

// One entry for each stage of a backbone, the coarsest last.
using Features = std::vector<Tokens>;

}  // namespace dtn
