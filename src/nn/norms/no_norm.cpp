// No normalization, for models with biases in its place.
#include "nn/norms/entries.h"

namespace dtn {
namespace {

class NoNorm final : public Normalizer {
 public:
  NoNorm(const NormConfig&, const NormShape&, const Scope&) {}

  Variable forward(Context&, const Variable& x, const TokenGrid&) override { return x; }
  Variable reference(Context&, const Variable& x, const TokenGrid&) override { return x; }
  bool is_per_token() const override { return true; }
};

std::optional<NormProblem> check_none(const NormConfig& config, const NormSite&) {
  if (!config.affine) return std::nullopt;
  return NormProblem{"affine", "none has no weight and bias; remove the key"};
}

}  // namespace

NormEntry no_norm_entry() {
  return {{.type = "none",
           .doc = "no normalization; the convolutions before it have biases",
           .needs = "convolutions with biases in its place",
           .check = check_none},
          make_norm<NoNorm>};
}

}  // namespace dtn
