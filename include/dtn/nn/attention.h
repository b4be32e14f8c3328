// Multi-head self-attention. Parameters: qkv.weight [3 C, C] and, with qkv_bias, qkv.bias [3 C];
// proj.weight [C, C], proj.bias [C]; with `position`, pos_proj.weight [H, 3].
#pragma once

#include "dtn/nn/drop.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/tokens.h"

namespace dtn {

class Attention {
 public:
  struct Options {
    std::int64_t channels;  // C
    std::int64_t heads;     // H
    bool qkv_bias = false;
    bool position = false;  // a bias for where tokens of a grid stand, see ops::attention_on_grid
    double dropout = 0;     // behind the projection
  };
  Attention(const Scope&, const Options&);

  // Values mixed by attention, ahead of the projection: x [B, T, C] -> [B, T, C].
  Variable mix(Context&, const Variable& x, const TokenGrid& grid) const;
  // The same for the class token alone, the first of x, which attends to all: [B, 1, C]. Not with a
  // positional bias.
  Variable mix_class_token(Context&, const Variable& x) const;
  bool has_position() const { return position_ != nullptr; }
  const Linear& projection() const { return proj_; }
  const Dropout& dropout() const { return dropout_; }

 private:
  std::int64_t heads_;
  Linear qkv_;
  Parameter* position_ = nullptr;
  Linear proj_;
  Dropout dropout_;
};

}  // namespace dtn
