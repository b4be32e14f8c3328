// InstanceNorm (Ulyanov et al., "Instance normalization", 2016): normalizes each channel of each
// sample over its tokens.
#include "nn/norms/entries.h"
#include "nn/norms/sample_norm.h"

namespace dtn {
namespace {

std::unique_ptr<Normalizer> make_instance(const NormConfig& config, const NormShape& shape,
                                          const Scope& scope) {
  const bool unbiased = *config.find<std::string>("variant") == "official";
  return std::make_unique<SampleNorm>("instance_norm", shape.channels, unbiased, shape, scope);
}

}  // namespace

NormEntry instance_norm_entry() {
  return {{.type = "in",
           .doc = "InstanceNorm: mean and variance of each channel of a sample over its tokens",
           .options = {choice_option("variant", {"paper", "official"},
                                     "divisor of the variance: paper divides by the T tokens, as "
                                     "in PyTorch; official divides by T - 1, as in the released "
                                     "DTN code")}},
          make_instance};
}

}  // namespace dtn
