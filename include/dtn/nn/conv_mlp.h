// The MLP of PVTv2 (Wang et al., PVT v2: Improved Baselines with Pyramid Vision Transformer, 2022):
//     fc2(gelu(conv(fc1 x)))
// where conv is a depthwise 3 x 3 convolution over the grid with zeros around it. Parameters:
// fc1.{weight [M, C], bias}, dwconv.dwconv.{weight [M, 1, 3, 3], bias}, fc2.{weight [C, M], bias}.
#pragma once

#include "dtn/nn/block_parts.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

class ConvMlp final : public BlockMlp {
 public:
  struct Options {
    std::int64_t channels;  // C
    std::int64_t hidden;    // M
  };
  ConvMlp(const Scope&, const Options&);

  // The input must have no prefix tokens.
  Variable forward(Context&, const Variable& x, const TokenGrid& grid,
                   const LinearValues& last) const override;
  Variable forward_add(Context&, const Variable& x, const TokenGrid& grid, const LinearValues& last,
                       const Variable& residual, const Tensor& scale) const override;
  bool is_fused(const Context&) const override { return true; }
  const Linear& last() const override { return fc2_; }
  bool is_per_token() const override { return false; }

 private:
  Variable hidden(Context&, const Variable& x, const TokenGrid& grid) const;

  Linear fc1_;
  TokenConv conv_;
  Linear fc2_;
};

}  // namespace dtn
