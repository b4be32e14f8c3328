// Self-attention inside windows of a grid, which may be shifted (Swin; Liu et al., Swin
// Transformer, ICCV 2021, Section 3.2). On a grid with a side shorter than the window, the windows
// have the length of that side. On a grid with a side not longer than the window, they are not
// shifted. If the windows do not fill the grid, zeros are added below and to the right of it before
// the shift, as in torchvision and MMDetection: keys and values there are the bias of qkv.
// Parameters: qkv.weight [3 C, C] and, with qkv_bias,
// qkv.bias [3 C]; relative_position_bias_table [(2 w - 1)^2, H]; proj.{weight, bias}.
#pragma once

#include <memory>

#include "dtn/nn/block_parts.h"
#include "dtn/nn/grid_cache.h"
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

  // Throws Error if there are prefix tokens.
  Variable mix(Context&, const Variable& x, const TokenGrid& grid) const override;
  std::string grid_problem(const TokenGrid& grid) const override;
  const Linear* projection() const override { return &proj_; }

 private:
  // Windows of a grid.
  struct Windows {
    std::int64_t side;  // tokens
    TokenGrid filled;   // the grid with the zeros that fill the windows
    std::shared_ptr<const ops::TokenGroups> groups;
    Tensor bias_index;
  };
  const Windows& windows_of(const TokenGrid& grid, Device device) const;

  Options options_;
  Linear qkv_;
  Parameter* bias_table_;
  Linear proj_;
  mutable GridCache<Windows> windows_;
};

}  // namespace dtn
