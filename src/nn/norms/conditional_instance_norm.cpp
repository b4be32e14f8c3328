// InstanceNorm by styles (Dumoulin et al., 2017) and by the moments of a style (Huang and Belongie,
// 2017); see dtn/nn/conditional_norm.h.
#include <array>

#include "dtn/ops/gather.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "nn/norms/conditional_parts.h"
#include "nn/norms/entries.h"
#include "ops/norm/channel_norm.h"

namespace dtn {
namespace {

// Normalizes each channel of each sample separately.
ops::ChannelNorm instances(const Variable& x, double eps) { return {x.dim(0), x.dim(2), eps}; }

}  // namespace

ConditionalInstanceNorm::ConditionalInstanceNorm(const Scope& scope, const Options& options)
    : options_(options),
      weight_(
          scope.weight("weight", {options.styles, options.channels}, InitKind::kOnes, Decay::kNo)),
      bias_(
          scope.weight("bias", {options.styles, options.channels}, InitKind::kZeros, Decay::kNo)) {}

Variable ConditionalInstanceNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                          const Condition& condition) {
  check_tokens("cin", x, grid, options_.channels);
  Variable weights;  // of the styles, if they are mixed
  if (check_styles("cin", condition, x.dim(0), options_.styles)) {
    weights = ops::cast(ctx, condition.vector, accumulator_of(x.dtype()));
  }
  auto of_style = [&](const Parameter* table) {
    return weights.defined() ? ops::mix_rows(ctx, table->variable, weights)
                             : ops::take_rows(ctx, table->variable, condition.index);
  };
  return ops::channel_norm(ctx, "cin", x, of_style(weight_), of_style(bias_),
                           instances(x, options_.eps));
}

Variable ConditionalInstanceNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                            const Condition& condition) {
  check_tokens("cin", x, grid, options_.channels);
  const bool mixed = check_styles("cin", condition, x.dim(0), options_.styles);
  auto of_style = [&](const Parameter* table) {
    return mixed ? ops::reference::mix_rows(ctx, table->variable, condition.vector)
                 : ops::reference::take_rows(ctx, table->variable, condition.index);
  };
  return ops::reference::channel_norm(ctx, x, of_style(weight_), of_style(bias_),
                                      instances(x, options_.eps));
}

Variable AdaptiveInstanceNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                       const Condition& condition) {
  check_tokens("adain", x, grid, options_.channels);
  const Variable& style = condition_tokens("adain", condition, x.dim(0), 0, options_.channels);
  auto [mean, std] = ops::channel_moments(ctx, style, options_.eps);
  return ops::channel_norm(ctx, "adain", x, std, mean, instances(x, options_.eps));
}

Variable AdaptiveInstanceNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                         const Condition& condition) {
  check_tokens("adain", x, grid, options_.channels);
  const Variable& style = condition_tokens("adain", condition, x.dim(0), 0, options_.channels);
  auto [mean, std] = ops::reference::channel_moments(ctx, style, options_.eps);
  return ops::reference::channel_norm(ctx, x, std, mean, instances(x, options_.eps));
}

namespace {

// InstanceNorm with gain and shift from a vector m [B, M]:
//     y = (1 + gain) (x - mean) / sqrt(var + eps) + shift,   (shift, gain) = W m + b
class MappedInstanceNorm final : public ConditionalNormalizer {
 public:
  MappedInstanceNorm(const NormShape& shape, const Scope& scope)
      : shape_(shape), modulation_(scope / "modulation", shape.condition, 2 * shape.channels) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                   const Condition& condition) override {
    check_tokens("adain_mlp", x, grid, shape_.channels);
    const auto [gain, shift] = split(ctx, modulation_.forward(ctx, vector_for(ctx, x, condition)));
    return ops::channel_norm(ctx, "adain_mlp", x, gain, shift, instances(x, shape_.eps));
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                     const Condition& condition) override {
    check_tokens("adain_mlp", x, grid, shape_.channels);
    const auto [gain, shift] =
        split(ctx, modulation_.reference(ctx, vector_for(ctx, x, condition)));
    return ops::reference::channel_norm(ctx, x, gain, shift, instances(x, shape_.eps));
  }

 private:
  Variable vector_for(Context& ctx, const Variable& x, const Condition& condition) const {
    return condition_vector(ctx, "adain_mlp", condition, x.dim(0), shape_.condition,
                            accumulator_of(x.dtype()));
  }
  // [B, 2 C] -> gain and shift, [B, C] each
  std::array<Variable, 2> split(Context& ctx, const Variable& modulation) const {
    const std::int64_t c = shape_.channels;
    const Variable change = primitive::narrow(ctx, modulation, 1, c, 2 * c);
    return {primitive::affine(ctx, change, 1, 1), primitive::narrow(ctx, modulation, 1, 0, c)};
  }

  NormShape shape_;
  Linear modulation_;
};

std::unique_ptr<Normalizer> make_conditional(const NormConfig&, const NormShape& shape,
                                             const Scope& scope) {
  DTN_CHECK(shape.styles > 0, scope.path, ": cin needs the number of styles");
  const ConditionalInstanceNorm::Options options{
      .channels = shape.channels, .styles = shape.styles, .eps = shape.eps};
  return make_conditioned("cin", false, std::make_unique<ConditionalInstanceNorm>(scope, options));
}

std::unique_ptr<Normalizer> make_adaptive_instance(const NormConfig&, const NormShape& shape,
                                                   const Scope&) {
  const AdaptiveInstanceNorm::Options options{.channels = shape.channels, .eps = shape.eps};
  return make_conditioned("adain", false, std::make_unique<AdaptiveInstanceNorm>(options));
}

std::unique_ptr<Normalizer> make_mapped(const NormConfig&, const NormShape& shape,
                                        const Scope& scope) {
  return make_conditioned("adain_mlp", false, std::make_unique<MappedInstanceNorm>(shape, scope));
}

}  // namespace

NormEntry conditional_instance_norm_entry() {
  return {{.type = "cin",
           .doc = "Conditional InstanceNorm: a gain and a shift for each style",
           .reads_condition = true,
           .needs = "a style for every sample",
           .check = check_conditioned},
          make_conditional};
}

NormEntry adaptive_instance_norm_entry() {
  return {{.type = "adain",
           .doc = "Adaptive InstanceNorm: the moments of each channel become those of a style",
           .reads_condition = true,
           .needs = "the features of a style image for every sample",
           .check = check_conditioned},
          make_adaptive_instance};
}

NormEntry mapped_instance_norm_entry() {
  return {{.type = "adain_mlp",
           .doc = "Adaptive InstanceNorm with gain and shift from a network of a condition",
           .reads_condition = true,
           .reads = {"condition.mapping"},
           .needs = "a network between the condition and its norms",
           .check = check_conditioned},
          make_mapped};
}

}  // namespace dtn
