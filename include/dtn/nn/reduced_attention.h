// Self-attention whose keys and values come from a coarser map of the same tokens (PVT; Wang et
// al., Pyramid Vision Transformer, ICCV 2021, Section 3.3). Parameters: q.weight [C, C], kv.weight
// [2 C, C] (all keys, then all values), q.bias, kv.bias with qkv_bias; proj.{weight, bias}. With a
// reduction r > 1 also sr.{weight [C, C, r, r], bias}, a convolution with kernel and stride r, and
// norm.{weight, bias}, a LayerNorm of its output. With `position` also pos_proj.weight [H, 3].
#pragma once

#include <memory>
#include <optional>

#include "dtn/nn/block_parts.h"
#include "dtn/nn/grid_cache.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

class ReducedAttention final : public BlockAttention {
 public:
  struct Options {
    std::int64_t channels;       // C
    std::int64_t heads;          // H
    std::int64_t reduction = 1;  // r
    bool qkv_bias = true;
    ConvInit init = ConvInit::kFanIn;  // of sr
    bool position = false;  // bias by the offsets from queries to keys, see offsets_to_cells
  };
  ReducedAttention(const Scope&, const Options&);

  // Prefix tokens are allowed only for r = 1 without positions. The last rows and columns that r
  // does not divide have queries but no keys.
  Variable mix(Context&, const Variable& x, const TokenGrid& grid) const override;
  Variable mix_first(Context&, const Variable& x, std::int64_t count) const override;
  std::string grid_problem(const TokenGrid& grid) const override;
  bool has_first_path() const override { return !reduce_ && !position_; }
  const Linear* projection() const override { return &proj_; }

 private:
  // The grids serve only observers.
  Variable attend(Context&, const Variable& queries, const TokenGrid& query_grid,
                  const Variable& source, const TokenGrid& source_grid, const Variable& bias) const;
  Variable bias_of(Context&, const TokenGrid& grid) const;

  std::int64_t channels_, heads_, reduction_;
  Linear q_, kv_;
  std::optional<TokenConv> reduce_;
  std::unique_ptr<Normalizer> norm_;  // null without reduction
  Parameter* position_ = nullptr;     // null: no positional bias
  Linear proj_;
  mutable GridCache<Tensor> offsets_;
};

}  // namespace dtn
