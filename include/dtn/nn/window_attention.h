// Self-attention inside windows of a grid, which may be shifted (Swin; Liu et al., Swin
// Transformer, ICCV 2021, Section 3.2). Parameters: qkv.weight [3 C, C] and, with qkv_bias,
// qkv.bias [3 C]; relative_position_bias_table [(2 w - 1)^2, H]; proj.{weight, bias}.
#pragma once

#include <memory>

#include "dtn/nn/block_parts.h"
#include "dtn/ops/grouped_attention.h"

namespace dtn {

class WindowAttention final : public BlockAttention {
 public:
  struct Options {
    std::int64_t channels;   // C
    std::int64_t heads;      // H
    std::int64_t window;     // w, tokens along a side
    std::int64_t shift = 0;  // shift of the windows in rows and columns
    bool qkv_bias = true;
  };
  WindowAttention(const Scope&, const Options&);

  // Throws Error if the windows do not fill the grid or there are prefix tokens.
  Variable mix(Context&, const Variable& x, const TokenGrid& grid) const override;
  const Linear* projection() const override { return &proj_; }

 private:
  // Cached windows. They depend only on the grid and the device.
  struct Windows {
    TokenGrid grid;
    std::shared_ptr<const ops::TokenGroups> groups;
    Tensor bias_index;
  };
  const Windows& windows_of(const TokenGrid& grid, Device device) const;

  Options options_;
  Linear qkv_;
  Parameter* bias_table_;
  Linear proj_;
  mutable Windows windows_{};  // of the most recent grid
};

}  // namespace dtn
