// Conditional BatchNorm (de Vries et al., 2017); see dtn/nn/conditional_norm.h.
//
// The samples share their statistics, but each sample has its own gains. So the kernels of
// kernels/norm/channel_norm.h run in parts. Forward: statistics over one set of all tokens, then
// application with one set per sample. Backward: sums of each sample, which give the gradients of
// its gains; then these sums, weighted and added up, give the sums over all tokens.
#include "dtn/ops/activation.h"
#include "dtn/ops/gather.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "kernels/norm/channel_moments.h"
#include "kernels/norm/channel_norm.h"
#include "kernels/pointwise/pointwise.h"
#include "nn/norms/batch_statistics.h"
#include "nn/norms/conditional_parts.h"
#include "nn/norms/entries.h"
#include "ops/norm/norm_gradients.h"

namespace dtn {
namespace {

// [C] -> [B, C]
Tensor for_each_sample(const Tensor& of_all, std::int64_t batch) {
  const std::int64_t channels = of_all.numel();
  Tensor repeated = Tensor::empty({batch, channels}, of_all.dtype(), of_all.device());
  run_on(of_all.device(),
         CopyRows{of_all.dtype(), batch, channels, of_all.raw(), 0, repeated.raw(), channels});
  return repeated;
}

// State between the forward and the backward pass: x [B, T, C], modulation [B, 2 C], shifts first.
struct Node {
  Tensor x, modulation;
  ops::ChannelMoments moments;  // [B, C], the same for every sample
  double eps;
  bool frozen;
  std::shared_ptr<const ops::SharedBatch> all;  // null: x is the whole batch
  GradSink dx, dmodulation;

  std::int64_t batch() const { return x.dim(0); }
  std::int64_t channels() const { return x.dim(2); }

  Tensor forward() const {
    Tensor y = Tensor::empty_like(x);
    ChannelNormForward args{};
    args.dtype = x.dtype();
    args.part = ChannelNormPart::kApplication;
    args.sets = batch();
    args.rows = x.dim(1);
    args.channels = args.groups = channels();
    args.eps = eps;
    args.x = x.raw();
    args.weight = element(modulation, channels());
    args.bias = modulation.raw();
    args.parameter_stride = 2 * channels();
    args.y = y.raw();
    Tensor mean = moments.mean, rest = moments.rest, variance = moments.variance;
    args.mean = mean.raw();
    args.mean_rest = rest.defined() ? rest.raw() : nullptr;
    args.variance = variance.raw();
    run_on(x.device(), args);
    return y;
  }

  void backward(const Tensor& dy) const {
    const DType acc = modulation.dtype();
    Tensor sums = Tensor::empty({batch(), 2, channels()}, acc, x.device());
    ChannelNormBackward args{};
    args.dtype = x.dtype();
    args.part = ChannelNormPart::kStatistics;
    args.sets = batch();
    args.rows = x.dim(1);
    args.channels = args.groups = channels();
    args.eps = eps;
    args.frozen = frozen;
    args.total_rows = all ? all->rows() : batch() * x.dim(1);
    args.x = x.raw();
    args.mean = moments.mean.raw();
    args.mean_rest = moments.rest.defined() ? moments.rest.raw() : nullptr;
    args.variance = moments.variance.raw();
    args.dy = dy.raw();
    args.sums = sums.raw();
    run_on(x.device(), args);
    // The sums are the gradients of shift and gain, in the layout of the modulation.
    if (dmodulation) dmodulation->accumulate(sums.reshape(modulation.shape()));
    if (!dx) return;
    ops::NormInputGradient input(dx, x);
    args.part = ChannelNormPart::kApplication;
    args.weight = element(modulation, channels());
    args.parameter_stride = 2 * channels();
    Tensor shared;
    if (!frozen) {
      shared = Tensor::empty_like(sums);
      run_on(x.device(), ShareSums{acc, batch(), channels(), args.weight, args.parameter_stride,
                                   sums.raw(), shared.raw()});
      if (all) {
        const Tensor of_all = shared.slice(0, 1).reshape({2 * channels()}).clone();
        all->add_up(of_all);
        shared = for_each_sample(of_all, batch());
      }
      args.sums = shared.raw();
      args.weighted_sums = true;
    }
    args.dx_add = input.waiting();
    args.dx = input.destination();
    run_on(x.device(), args);
    input.deliver();
  }

  static const void* element(const Tensor& t, std::int64_t i) {
    return static_cast<const std::byte*>(t.raw()) +
           static_cast<std::size_t>(i) * size_of(t.dtype());
  }
};

}  // namespace

ConditionalBatchNorm::ConditionalBatchNorm(const Scope& scope, const Options& options)
    : options_(options),
      weight_(scope.weight("weight", {options.channels}, InitKind::kOnes, Decay::kNo)),
      bias_(scope.weight("bias", {options.channels}, InitKind::kZeros, Decay::kNo)),
      hidden_(scope / "hidden", options.condition, options.hidden),
      modulation_(scope / "modulation", options.hidden, 2 * options.channels),
      running_(scope, options.channels, options.momentum, options.sync) {}

Variable ConditionalBatchNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                       const Condition& condition) {
  check_tokens("cbn", x, grid, options_.channels);
  const DType acc = accumulator_of(x.dtype());
  const std::int64_t batch = x.dim(0);
  Variable c = condition_vector(ctx, "cbn", condition, batch, options_.condition, acc);
  Variable changes = modulation_.forward(ctx, ops::relu(ctx, hidden_.forward(ctx, c)));
  Variable kept = ops::join_columns(ctx, bias_->variable, weight_->variable);
  Variable modulation = ops::add_positions(ctx, changes, kept);

  const auto all = shared_batch(ctx, running_.sync, x.value());
  Node node{x.value(), modulation.value(), {}, options_.eps, !ctx.training(), all,
            x.sink(),  modulation.sink()};
  const ops::ChannelMoments of_all =
      batch_statistics(ctx, running_, x.value(), options_.eps, all.get());
  node.moments = {for_each_sample(of_all.mean, batch),
                  of_all.rest.defined() ? for_each_sample(of_all.rest, batch) : Tensor(),
                  for_each_sample(of_all.variance, batch)};
  return ctx.record("cbn", node.forward(), {&x, &modulation},
                    [node](const Tensor& dy) { node.backward(dy); });
}

Variable ConditionalBatchNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                         const Condition& condition) {
  namespace e = primitive;
  check_tokens("cbn", x, grid, options_.channels);
  const std::int64_t batch = x.dim(0), channels = options_.channels;
  Variable c =
      condition_vector(ctx, "cbn", condition, batch, options_.condition, accumulator_of(x.dtype()));
  Variable hidden = ops::reference::relu(ctx, hidden_.reference(ctx, c));
  Variable changes = e::reshape(ctx, modulation_.reference(ctx, hidden), {batch, 1, 2 * channels});
  Variable shift = e::add(ctx, e::narrow(ctx, changes, 2, 0, channels), bias_->variable);
  Variable gain =
      e::add(ctx, e::narrow(ctx, changes, 2, channels, 2 * channels), weight_->variable);
  Variable xhat = dtn::reference::batch_norm(ctx, e::upcast(ctx, x), options_.eps, running_);
  return e::cast(ctx, e::add(ctx, e::mul(ctx, xhat, gain), shift), x.dtype());
}

namespace {

constexpr std::int64_t kUsualHidden = 128;

std::unique_ptr<Normalizer> make_conditional_batch(const NormConfig& config, const NormShape& shape,
                                                   const Scope& scope) {
  const ConditionalBatchNorm::Options options{.channels = shape.channels,
                                              .condition = shape.condition,
                                              .hidden = *config.find<std::int64_t>("hidden"),
                                              .eps = shape.eps,
                                              .momentum = config.number("momentum").value(),
                                              .sync = *config.find<bool>("sync")};
  return make_conditioned("cbn", false, std::make_unique<ConditionalBatchNorm>(scope, options));
}

}  // namespace

NormEntry conditional_batch_norm_entry() {
  return {{.type = "cbn",
           .doc = "Conditional BatchNorm: gains and shifts that a vector for each sample changes",
           .options = {hidden_option(kUsualHidden), momentum_option(), sync_option()},
           .running_statistics = true,
           .reads_condition = true,
           .needs = "a condition for every sample",
           .check = check_conditioned},
          make_conditional_batch};
}

}  // namespace dtn
