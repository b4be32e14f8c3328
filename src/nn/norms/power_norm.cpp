// PowerNorm (Shen et al., ICML 2020) as in the released DTN code: groups of channels are scaled
// first, and the warmup takes 3000 iterations by default. The math is in kernels/norm/power_norm.h.
//
// Names and shapes are those of the authors' module: weight[C], bias[C], running_phi[1, C, 1, 1],
// ema_gz[1, C, 1, 1], iters[1]. iters counts optimizer steps, not micro-batches.
#include "kernels/norm/power_norm.h"

#include "dtn/ops/primitive.h"
#include "nn/norms/groups.h"
#include "nn/norms/rows.h"
#include "nn/norms/shared_batch.h"
#include "nn/norms/valid_tokens.h"
#include "ops/dispatch.h"
#include "ops/norm/norm_gradients.h"

namespace dtn {
namespace {

class PowerNorm : public Normalizer {
 public:
  PowerNorm(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : channels_(shape.channels),
        groups_(groups_of(config, shape.heads)),
        eps_(shape.eps),
        warmup_(*config.find<std::int64_t>("warmup")),
        alpha_forward_(config.number("alpha_forward").value()),
        alpha_backward_(config.number("alpha_backward").value()),
        sync_(*config.find<bool>("sync")),
        weight_(scope.weight("weight", {channels_}, InitKind::kOnes, Decay::kNo)),
        bias_(scope.weight("bias", {channels_}, InitKind::kZeros, Decay::kNo)) {
    const Shape of_channels = {1, channels_, 1, 1};
    running_phi_ = scope.buffer("running_phi", of_channels, InitKind::kOnes);
    ema_gz_ = scope.buffer("ema_gz", of_channels, InitKind::kZeros);
    iterations_ = scope.buffer("iters", {1}, InitKind::kZeros);
  }

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override;
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override;
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

 private:
  struct Saved;  // for the backward pass
  using Batch = std::shared_ptr<const ops::SharedBatch>;

  // Normalizes x. In training x is a share of the batch, or the whole batch if Batch is null.
  Variable normalize(Context&, const Variable& x, const Batch&);

  void check(const Variable& x) const {
    DTN_CHECK(x.dim(-1) == channels_, "power norm: input ", to_string(x.shape()),
              " does not end in ", channels_, " channels");
  }

  std::int64_t channels_, groups_;
  double eps_;
  std::int64_t warmup_;
  double alpha_forward_, alpha_backward_;
  bool sync_;
  Parameter* weight_;
  Parameter* bias_;
  Buffer* running_phi_;
  Buffer* ema_gz_;
  Buffer* iterations_;
};

struct PowerNorm::Saved {
  PowerNormShape shape;
  double alpha;
  Tensor x, weight, rpsi, power;
  Tensor ema_gz, next_ema_gz;                     // defined in training
  std::shared_ptr<const ops::SharedBatch> batch;  // null: x is the whole batch
  GradSink dx, dweight, dbias;

  void backward(const Tensor& dy) const;
};

Variable PowerNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid) {
  check(x);
  if (!grid.padded()) return normalize(ctx, x, shared_batch(ctx, sync_, x.value()));
  return of_valid_rows(ctx, x, grid, [&](const Variable& rows) {
    return normalize(ctx, rows, shared_rows(ctx, sync_, rows.dim(0)));
  });
}

Variable PowerNorm::normalize(Context& ctx, const Variable& x, const Batch& batch) {
  const Device device = x.device();
  const DType acc = accumulator_of(x.dtype());
  const std::int64_t rows = x.value().numel() / channels_;
  Saved saved;
  saved.shape = {x.dtype(), rows, channels_, groups_, eps_};
  saved.alpha = alpha_backward_;
  saved.x = x.value();
  saved.weight = weight_->variable.value_as(acc);
  saved.rpsi = Tensor::empty({channels_}, acc, device);
  saved.dx = x.sink();
  saved.dweight = weight_->variable.sink();
  saved.dbias = bias_->variable.sink();
  Tensor y = Tensor::empty_like(saved.x), bias = bias_->variable.value_as(acc), squares;

  PowerNormForward args{};
  args.shape = saved.shape;
  args.x = saved.x.raw();
  args.weight = saved.weight.raw();
  args.bias = bias.raw();
  args.running_phi = running_phi_->value.raw();
  args.y = y.raw();
  args.rpsi = saved.rpsi.raw();
  if (ctx.training()) {
    squares = Tensor::zeros({channels_}, acc, device);  // stays 0 without rows
    saved.power = Tensor::empty({channels_}, acc, device);
    saved.ema_gz = ema_gz_->value;
    saved.next_ema_gz = ema_gz_->next;
    saved.batch = batch;
    run_on(device, PowerNormSquares{saved.shape, saved.x.raw(), squares.raw()});
    if (saved.batch) saved.batch->add_up(squares);
    args.squares = squares.raw();
    args.count = saved.batch ? saved.batch->rows() : rows;
    args.iterations = iterations_->value.raw();
    args.warmup = warmup_;
    args.alpha = alpha_forward_;
    args.power = saved.power.raw();
    args.next_running_phi = ctx.mode.recompute ? nullptr : running_phi_->next.raw();
    args.next_iterations = ctx.mode.recompute ? nullptr : iterations_->next.raw();
  }
  run_on(device, args);
  return ctx.record("power_norm", y, {&x, &weight_->variable, &bias_->variable},
                    [saved](const Tensor& dy) { saved.backward(dy); });
}

void PowerNorm::Saved::backward(const Tensor& dy) const {
  const bool training = ema_gz.defined();
  const Device device = x.device();
  Tensor dot;
  if (training) dot = Tensor::zeros(rpsi.shape(), rpsi.dtype(), device);  // stays 0 without rows
  ops::NormInputGradient input(dx, x);
  PowerNormBackward back{};
  back.shape = shape;
  back.x = x.raw();
  back.weight = weight.raw();
  back.rpsi = rpsi.raw();
  back.ema_gz = training ? ema_gz.raw() : nullptr;
  back.alpha = alpha;
  back.dy = dy.raw();
  back.dx_add = input.waiting();
  back.dx = input.destination();
  back.dweight = ops::buffer_or_null(dweight, {shape.channels}, rpsi.dtype(), device);
  back.dbias = ops::buffer_or_null(dbias, {shape.channels}, rpsi.dtype(), device);
  back.dot = training ? dot.raw() : nullptr;
  run_on(device, back);
  input.deliver();
  if (!training) return;
  if (batch) batch->add_up(dot);
  Tensor next = next_ema_gz;
  const std::int64_t count = batch ? batch->rows() : shape.rows;
  run_on(device, PowerNormFeedback{rpsi.dtype(), shape.channels, count, alpha, weight.raw(),
                                   dot.raw(), power.raw(), next.raw()});
}

// --- reference ----------------------------------------------------------------------------------

namespace e = primitive;

// Returns z; the backward pass subtracts nu z from the gradient.
Variable damped(Context& ctx, const Variable& z, const Tensor& nu) {
  return ctx.record(
      "damped", z.value(), {&z}, [nu, z = z.value(), sink = z.sink()](const Tensor& dz) {
        Context plain;
        sink->accumulate(
            e::sub(plain, Variable(dz), e::mul(plain, Variable(z), Variable(nu))).value());
      });
}

Variable PowerNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid) {
  check(x);
  if (grid.padded()) {
    return of_valid_rows(ctx, x, grid,
                         [&](const Variable& rows) { return reference(ctx, rows, {}); });
  }
  const std::int64_t rows = x.value().numel() / channels_;
  Variable split = e::reshape(ctx, e::upcast(ctx, x), {rows, groups_, channels_ / groups_});
  Variable squares = e::mean(ctx, e::mul(ctx, split, split), -1);
  Variable z0 = e::reshape(ctx, e::div(ctx, split, e::sqrt(ctx, e::affine(ctx, squares, 1, eps_))),
                           {rows, channels_});

  // From here on psi is a constant, through which no gradient flows.
  Context plain;
  Variable phi = e::reshape(plain, Variable(running_phi_->value), {1, channels_});
  double iteration = 1;
  const Tensor iterations = iterations_->value.to(kCpu);
  dispatch_real(iterations.dtype(), [&](auto zero) {
    iteration += static_cast<double>(*iterations.data<decltype(zero)>());
  });
  if (ctx.training() && iteration <= static_cast<double>(warmup_))
    phi = e::mean(plain, e::mul(plain, Variable(z0.value()), Variable(z0.value())), 0);
  Variable z = e::div(ctx, z0, e::sqrt(plain, e::affine(plain, phi, 1, eps_)));
  if (ctx.training()) {
    Variable ema = e::reshape(plain, Variable(ema_gz_->value), {1, channels_});
    z = damped(ctx, z, e::affine(plain, ema, 1 - alpha_backward_).value());
  }
  Variable y = e::add(ctx, e::mul(ctx, z, weight_->variable), bias_->variable);
  return e::cast(ctx, e::reshape(ctx, y, x.shape()), x.dtype());
}

std::unique_ptr<Normalizer> make_power(const NormConfig& config, const NormShape& shape,
                                       const Scope& scope) {
  return std::make_unique<PowerNorm>(config, shape, scope);
}

}  // namespace

NormRow power_norm_row() {
  NormSchema schema;
  schema.type = "power";
  schema.doc =
      "PowerNorm: groups of channels over their root mean square, then each channel over "
      "a running one";
  schema.running_statistics = true;
  schema.approximate_gradient = true;
  schema.check = check_groups;
  schema.options = {
      groups_option("number of groups of channels that are scaled first: heads (as many as "
                    "attention heads), or a number that divides the channels C"),
      {"warmup",
       OptionKind::kInt,
       std::int64_t{3000},
       {},
       0,
       16e6,  // float32 counts exactly up to 2^24
       "number of steps at the start that divide by the mean square of the batch, not by the "
       "running one"},
      {"alpha_forward",
       OptionKind::kNumber,
       0.9,
       {},
       0,
       1,
       "share of the running mean square that each step keeps"},
      {"alpha_backward",
       OptionKind::kNumber,
       0.9,
       {},
       0,
       1,
       "share of the running mean of the backward pass that each step keeps"},
      sync_option(),
  };
  return {std::move(schema), make_power};
}

}  // namespace dtn
