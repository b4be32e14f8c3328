// Tokens and their arrangement: the values passed between the parts of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/autograd/variable.h"

namespace dtn {

// The arrangement of T tokens. A sequence is a grid of one row. A prefix of tokens without a grid
// position, such as a class token, may precede the grid, which is in raster order.
struct TokenGrid {
  std::int64_t height = 1, width = 1, prefix = 0;
  // [B] int64: number of valid tokens of each sample, from 1 to T, if sequences are padded at their
  // ends; undefined: all tokens are valid.
  Tensor lengths{};

  std::int64_t tokens() const { return prefix + height * width; }
  bool padded() const { return lengths.defined(); }
  // Compares the arrangement only, not the lengths.
  bool operator==(const TokenGrid& other) const {
    return height == other.height && width == other.width && prefix == other.prefix;
  }
};

// A square grid if T is a square number, else a sequence.
TokenGrid square_or_sequence(std::int64_t tokens);

// x [B, extra + h w, C]: the tokens of a grid in raster order, after `extra` prefix tokens.
struct Tokens {
  Variable x;
  TokenGrid grid;
  int extra = 0;
  Tensor lengths{};  // as in TokenGrid

  // The grid with its prefix, as layers take it.
  TokenGrid arrangement() const { return {grid.height, grid.width, extra, lengths}; }
};

// One entry for each stage of a backbone, the coarsest last.
using Features = std::vector<Tokens>;

}  // namespace dtn
