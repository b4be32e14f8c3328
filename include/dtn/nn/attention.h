// Multi-head self-attention. Parameters: qkv.weight [3 C, C] and, with qkv_bias, qkv.bias [3 C];
// proj.weight [C, C], proj.bias [C]; with `position`, pos_proj.weight [H, 3]; with qk_norm,
// q_norm.{weight, bias} and k_norm.{weight, bias} [D], which all heads share.
#pragma once

#include <memory>
#include <optional>

#include "dtn/nn/block_parts.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/observer.h"

namespace dtn {

class Attention final : public BlockAttention {
 public:
  struct Options {
    std::int64_t channels;  // C
    std::int64_t heads;     // H
    bool qkv_bias = false;
    bool position = false;  // positional bias on a grid, see ops::attention_on_grid
    double dropout = 0;     // after the projection
    // eps of a LayerNorm over the D channels of each head's queries and keys; unset: no LayerNorm.
    std::optional<double> qk_norm{};
  };
  Attention(const Scope&, const Options&);

  Variable mix(Context&, const Variable& x, const TokenGrid& grid) const override;
  Variable mix_first(Context&, const Variable& x, std::int64_t count) const override;
  // False with a positional bias.
  bool has_first_path() const override { return position_ == nullptr; }
  const Linear* projection() const override { return &proj_; }
  const Dropout* dropout() const override { return &dropout_; }

 private:
  // q, k and v of x [B, T, C], as [B, T, 3 C], after the norms of q and k.
  Variable queries_keys_values(Context&, const Variable& x) const;
  // The inputs of the attention weights, for an observer.
  AttentionView view_of(const Variable& qkv, const TokenGrid& grid) const;
  // kv [B, T, 2 C]: the keys, then the values.
  Variable with_normalized_keys(Context&, const Variable& kv) const;

  std::int64_t heads_;
  Linear qkv_;
  std::unique_ptr<Normalizer> q_norm_, k_norm_;  // both or none
  Parameter* position_ = nullptr;
  Linear proj_;
  Dropout dropout_;
};

}  // namespace dtn
