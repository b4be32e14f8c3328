// What the branches of a transformer block are made of (block.h), whatever the attention and the
// MLP of a family of models are.
#pragma once

#include "dtn/nn/drop.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/tokens.h"

namespace dtn {

// How tokens are mixed: the attention branch up to its last layer.
class BlockAttention {
 public:
  virtual ~BlockAttention() = default;

  // Values mixed by attention, ahead of the projection: x [B, T, C] -> [B, T, C], T =
  // grid.tokens().
  virtual Variable mix(Context&, const Variable& x, const TokenGrid& grid) const = 0;
  // The same for the first `count` tokens of x alone, which attend to all: [B, count, C]. Only
  // where has_first_path(); else throws Error.
  virtual Variable mix_first(Context&, const Variable& x, std::int64_t count) const;
  virtual bool has_first_path() const { return false; }
  // How much of each token's values every token takes there, [B, H, T, T] in float32 or wider.
  // Throws Error where tokens do not attend to all tokens.
  virtual Variable weights(Context&, const Variable& x, const TokenGrid& grid) const;

  // Null where what mix() gives is what is added to the residual.
  virtual const Linear* projection() const = 0;
  // Behind the projection; null: none.
  virtual const Dropout* dropout() const { return nullptr; }
};

// What happens to each token, and perhaps its neighbours: the MLP branch.
class BlockMlp {
 public:
  virtual ~BlockMlp() = default;

  // x [B, T, C] -> [B, T, C], T = grid.tokens(), with these values for the last layer.
  virtual Variable forward(Context&, const Variable& x, const TokenGrid& grid,
                           const LinearValues& last) const = 0;
  // residual + s_b forward(x), added by the last product; only where is_fused(). scale [B] in the
  // accumulator type, or undefined for 1.
  virtual Variable forward_add(Context&, const Variable& x, const TokenGrid& grid,
                               const LinearValues& last, const Variable& residual,
                               const Tensor& scale) const = 0;
  virtual bool is_fused(const Context&) const = 0;
  virtual const Linear& last() const = 0;
  // Whether what becomes of a token depends on that token alone.
  virtual bool is_per_token() const { return true; }
};

}  // namespace dtn
