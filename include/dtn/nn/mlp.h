// The MLP of a transformer block. Parameters: fc1.{weight [M, C], bias [M]}, fc2.{weight [C, M],
// bias [C]}; z = x W1^T + b1.
//   plain           act(z) W2^T + b2
//   swiglu_packed   (act(g) u) W2^T + b2, (g, u) the halves of z; fc2.weight is [C, M / 2]
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/nn/drop.h"
#include "dtn/nn/linear.h"

namespace dtn {

class Mlp {
 public:
  struct Options {
    std::int64_t channels;  // C
    std::int64_t hidden;    // M
    double dropout = 0;     // behind either layer
    MlpKind kind = MlpKind::kPlain;
    MlpActivation act = MlpActivation::kGelu;
  };
  Mlp(const Scope&, const Options&);

  // x [..., C] -> [..., C]
  Variable forward(Context& ctx, const Variable& x) const { return forward(ctx, x, fc2_.values()); }
  // The same with other values for the last layer.
  Variable forward(Context&, const Variable& x, const LinearValues& last) const;
  // residual + s_b forward(x), in one operation; only where is_fused(). See ops::mlp_residual.
  Variable forward_add(Context&, const Variable& x, const LinearValues& last,
                       const Variable& residual, const Tensor& scale) const;
  const Linear& last() const { return fc2_; }
  bool is_fused(const Context& ctx) const {
    return kind_ == MlpKind::kPlain && act_ == MlpActivation::kGelu && !drop1_.active(ctx);
  }

 private:
  Variable hidden(Context&, const Variable& x) const;
  Variable activated(Context&, const Variable& z) const;

  MlpKind kind_;
  MlpActivation act_;
  Linear fc1_, fc2_;
  Dropout drop1_, drop2_;
};

}  // namespace dtn
