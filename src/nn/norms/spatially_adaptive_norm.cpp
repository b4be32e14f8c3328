// Spatially-adaptive normalization (Park et al., 2019); see dtn/nn/conditional_norm.h.
#include "dtn/ops/activation.h"
#include "dtn/ops/gather.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "nn/norms/batch_statistics.h"
#include "nn/norms/conditional_parts.h"
#include "nn/norms/entries.h"

namespace dtn {

SpatiallyAdaptiveNorm::SpatiallyAdaptiveNorm(const Scope& scope, const Options& options)
    : options_(options),
      shared_(scope / "shared", 9 * options.condition, options.hidden),
      modulation_(scope / "modulation", 9 * options.hidden, 2 * options.channels) {
  if (options.base == Base::kBatch) {
    running_.emplace(scope, options.channels, options.momentum, options.sync);
  }
}

Variable SpatiallyAdaptiveNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                        const Condition& condition) {
  check_tokens("spade", x, grid, options_.channels);
  const std::int64_t batch = x.dim(0), channels = options_.channels;
  const Variable& map =
      condition_tokens("spade", condition, batch, grid.tokens(), options_.condition);
  auto convolve = [&](const Linear& linear, const Variable& v) {
    return linear.forward(ctx, ops::neighbours(ctx, v, grid.height, grid.width));
  };
  Variable hidden = ops::relu(ctx, convolve(shared_, ops::cast(ctx, map, x.dtype())));
  Variable modulation = convolve(modulation_, hidden);
  Variable xhat = running_
                      ? batch_norm(ctx, "spade", x, {}, {}, options_.eps, *running_,
                                   shared_batch(ctx, running_->sync, x.value()))
                      : ops::channel_norm(ctx, "spade", x, {}, {}, {batch, channels, options_.eps});
  return ops::modulate(ctx, xhat, modulation);
}

Variable SpatiallyAdaptiveNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                          const Condition& condition) {
  check_tokens("spade", x, grid, options_.channels);
  const std::int64_t batch = x.dim(0), channels = options_.channels;
  const Variable& map =
      condition_tokens("spade", condition, batch, grid.tokens(), options_.condition);
  auto convolve = [&](const Linear& linear, const Variable& v) {
    return linear.reference(ctx, ops::reference::neighbours(ctx, v, grid.height, grid.width));
  };
  Variable hidden = ops::reference::relu(ctx, convolve(shared_, map));
  const Variable wide = primitive::upcast(ctx, x);
  Variable xhat =
      running_ ? dtn::reference::batch_norm(ctx, wide, options_.eps, *running_)
               : ops::reference::channel_norm(ctx, wide, {}, {}, {batch, channels, options_.eps});
  Variable y = ops::reference::modulate(ctx, xhat, convolve(modulation_, hidden));
  return primitive::cast(ctx, y, x.dtype());
}

namespace {

constexpr std::int64_t kUsualHidden = 128;

std::unique_ptr<Normalizer> make_spatially_adaptive(const NormConfig& config,
                                                    const NormShape& shape, const Scope& scope) {
  using Base = SpatiallyAdaptiveNorm::Base;
  const bool batch = *config.find<std::string>("base") == "bn";
  const SpatiallyAdaptiveNorm::Options options{.channels = shape.channels,
                                               .condition = shape.condition,
                                               .hidden = *config.find<std::int64_t>("hidden"),
                                               .base = batch ? Base::kBatch : Base::kInstance,
                                               .eps = shape.eps,
                                               .momentum = config.number("momentum").value(),
                                               .sync = *config.find<bool>("sync")};
  return make_conditioned("spade", false, std::make_unique<SpatiallyAdaptiveNorm>(scope, options));
}

}  // namespace

NormEntry spatially_adaptive_norm_entry() {
  return {{.type = "spade",
           .doc = "Spatially-adaptive normalization: gain and shift of each token from a map",
           .options = {hidden_option(kUsualHidden),
                       choice_option("base", {"bn", "in"}, "the norm without gain and shift"),
                       momentum_option(), sync_option()},
           .running_statistics = true,
           .reads_condition = true,
           .needs = "a map over the tokens of every sample",
           .check = check_conditioned},
          make_spatially_adaptive};
}

}  // namespace dtn
