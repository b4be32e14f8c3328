// Interfaces of the branches of a transformer block (block.h): the attention and the MLP, which
// differ between model families.
#pragma once

#include <string>

#include "dtn/nn/drop.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/tokens.h"

namespace dtn {

// Mixes tokens: the attention branch up to its last layer.
class BlockAttention {
 public:
  virtual ~BlockAttention() = default;

  // Attention before the projection: x [B, T, C] -> [B, T, C], T = grid.tokens().
  virtual Variable mix(Context&, const Variable& x, const TokenGrid& grid) const = 0;
  // mix() for only the first `count` tokens of x, which attend to all: [B, count, C]. Throws Error
  // unless has_first_path().
  virtual Variable mix_first(Context&, const Variable& x, std::int64_t count) const;
  // True if mix_first() works.
  virtual bool has_first_path() const { return false; }

  // The reason why the attention cannot run on a grid, as the end of a sentence; empty: it can.
  virtual std::string grid_problem(const TokenGrid&) const { return {}; }

  // Null if the result of mix() is added to the residual unchanged.
  virtual const Linear* projection() const = 0;
  // After the projection; null: none.
  virtual const Dropout* dropout() const { return nullptr; }
};

// Transforms each token, possibly with its neighbours: the MLP branch.
class BlockMlp {
 public:
  virtual ~BlockMlp() = default;

  // x [B, T, C] -> [B, T, C], T = grid.tokens(). `last` replaces the values of the last layer.
  virtual Variable forward(Context&, const Variable& x, const TokenGrid& grid,
                           const LinearValues& last) const = 0;
  // residual + s_b forward(x), with the sum fused into the last product. Only if is_fused(). scale
  // [B] in the accumulator type, or undefined for 1.
  virtual Variable forward_add(Context&, const Variable& x, const TokenGrid& grid,
                               const LinearValues& last, const Variable& residual,
                               const Tensor& scale) const = 0;
  // True if forward_add() can be used in this context.
  virtual bool is_fused(const Context&) const = 0;
  // The last linear layer, whose parameters are the usual `last` of forward().
  virtual const Linear& last() const = 0;
  // True if the result of a token depends only on that token.
  virtual bool is_per_token() const { return true; }
};

}  // namespace dtn
