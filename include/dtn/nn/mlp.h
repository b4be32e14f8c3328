// The MLP of a transformer block. Parameters: fc1.{weight [M, C], bias [M]}, fc2.{weight [C, M],
// bias [C]}; z = x W1^T + b1.
//     plain           act(z) W2^T + b2
//     swiglu_packed   (act(g) u) W2^T + b2, (g, u) the halves of z; fc2.weight is [C, M / 2]
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/nn/block_parts.h"
#include "dtn/ops/linear.h"

namespace dtn {

class Mlp final : public BlockMlp {
 public:
  struct Options {
    std::int64_t channels;  // C
    std::int64_t hidden;    // M
    double dropout = 0;     // after both layers
    MlpKind kind = MlpKind::kPlain;
    MlpActivation act = MlpActivation::kGelu;
    // Initial values of both layers.
    Initializer init = InitKind::kTruncatedNormal, bias_init = InitKind::kZeros;
  };
  Mlp(const Scope&, const Options&);

  // x [..., C] -> [..., C]
  Variable forward(Context& ctx, const Variable& x) const {
    return forward(ctx, x, {}, fc2_.values());
  }
  // Ignores the grid.
  Variable forward(Context&, const Variable& x, const TokenGrid&,
                   const LinearValues& last) const override;
  // Runs as one operation, see ops::mlp_residual.
  Variable forward_add(Context&, const Variable& x, const TokenGrid&, const LinearValues& last,
                       const Variable& residual, const Tensor& scale) const override;
  const Linear& last() const override { return fc2_; }
  bool is_fused(const Context& ctx) const override {
    return kind_ == MlpKind::kPlain && is_gelu() && !drop1_.active(ctx);
  }

 private:
  // True for GELU in one of its forms.
  bool is_gelu() const { return act_ == MlpActivation::kGelu || act_ == MlpActivation::kGeluTanh; }
  ops::GeluForm gelu_form() const;
  Variable hidden(Context&, const Variable& x) const;
  Variable activated(Context&, const Variable& z) const;

  MlpKind kind_;
  MlpActivation act_;
  Linear fc1_, fc2_;
  Dropout drop1_, drop2_;
};

}  // namespace dtn
