// RMSNorm (Zhang & Sennrich, "Root mean square layer normalization", NeurIPS 2019) and ScaleNorm
// (Nguyen & Salazar, "Transformers without tears", IWSLT 2019). ScaleNorm has a weight per channel
// that starts at sqrt(C), as in the code of the DTN paper; without the weight, the gain is 1.
// Neither has a bias. The math is in kernels/norm/rms_norm.h.
#include "ops/norm/rms_norm.h"

#include <cmath>

#include "nn/norms/affine.h"
#include "nn/norms/entries.h"

namespace dtn {
namespace {

class RmsNorm : public Normalizer {
 public:
  RmsNorm(RmsNormKind kind, const NormShape& shape, const Scope& scope)
      : kind_(kind), eps_(shape.eps), weight_(shape, scope, "weight", start_of(kind, shape), 1) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid&) override {
    return ops::rms_norm(ctx, kind_, x, weight_.values_for(x), eps_);
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid&) override {
    return ops::reference::rms_norm(ctx, kind_, x, weight_.values_for(x), eps_);
  }
  bool is_per_token() const override { return true; }

 private:
  static double start_of(RmsNormKind kind, const NormShape& shape) {
    return kind == RmsNormKind::kRms ? 1 : std::sqrt(static_cast<double>(shape.channels));
  }

  RmsNormKind kind_;
  double eps_;
  ChannelParameter weight_;
};

template <RmsNormKind kKind>
std::unique_ptr<Normalizer> make_rms(const NormConfig&, const NormShape& shape,
                                     const Scope& scope) {
  return std::make_unique<RmsNorm>(kKind, shape, scope);
}

}  // namespace

NormEntry rms_norm_entry() {
  return {{.type = "rms",
           .doc = "RMSNorm: each token divided by its root mean square; no mean, no bias"},
          make_rms<RmsNormKind::kRms>};
}

NormEntry scale_norm_entry() {
  return {
      {.type = "scale",
       .doc =
           "ScaleNorm: each token divided by its length, times a weight per channel that starts at "
           "sqrt(C)"},
      make_rms<RmsNormKind::kScale>};
}

}  // namespace dtn
