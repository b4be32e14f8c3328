#include "ops/norm/power_norm.h"

#include <utility>

#include "dtn/ops/primitive.h"
#include "kernels/norm/power_norm.h"
#include "ops/dispatch.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {
namespace {

// Inputs of the backward pass.
struct PowerNormSaved {
  PowerNormShape shape;
  double alpha;
  Tensor x, weight, rpsi, power;
  Tensor ema_gz, next_ema_gz;                // defined in training
  std::shared_ptr<const SharedBatch> batch;  // null: x is the whole batch
  GradSink dx, dweight, dbias;

  void backward(const Tensor& dy) const;
};

void PowerNormSaved::backward(const Tensor& dy) const {
  const bool training = ema_gz.defined();
  const Device device = x.device();
  Tensor dot;
  if (training) dot = Tensor::zeros(rpsi.shape(), rpsi.dtype(), device);  // stays 0 without rows
  NormInputGradient input(dx, x);
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
  back.dweight = buffer_or_null(dweight, {shape.channels}, rpsi.dtype(), device);
  back.dbias = buffer_or_null(dbias, {shape.channels}, rpsi.dtype(), device);
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

// Returns z; the backward pass subtracts nu z from the gradient.
Variable damped(Context& ctx, const Variable& z, const Tensor& nu) {
  return ctx.record(
      "damped", z.value(), {&z}, [nu, z = z.value(), sink = z.sink()](const Tensor& dz) {
        Context plain;
        sink->accumulate(
            primitive::sub(plain, Variable(dz), primitive::mul(plain, Variable(z), Variable(nu)))
                .value());
      });
}

}  // namespace

Variable power_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                    const PowerNormOptions& o, const PowerNormState& state,
                    std::shared_ptr<const SharedBatch> batch) {
  const Device device = x.device();
  const DType acc = accumulator_of(x.dtype());
  const std::int64_t channels = x.dim(-1), rows = x.value().numel() / channels;
  PowerNormSaved saved;
  saved.shape = {x.dtype(), rows, channels, o.groups, o.eps};
  saved.alpha = o.alpha_backward;
  saved.x = x.value();
  saved.weight = weight.value_as(acc);
  saved.rpsi = Tensor::empty({channels}, acc, device);
  saved.dx = x.sink();
  saved.dweight = weight.sink();
  saved.dbias = bias.sink();
  Tensor y = Tensor::empty_like(saved.x), shift = bias.value_as(acc), squares;
  PowerNormState of = state;

  PowerNormForward args{};
  args.shape = saved.shape;
  args.x = saved.x.raw();
  args.weight = saved.weight.raw();
  args.bias = shift.raw();
  args.running_phi = of.running_phi.raw();
  args.y = y.raw();
  args.rpsi = saved.rpsi.raw();
  if (ctx.training()) {
    squares = Tensor::zeros({channels}, acc, device);  // stays 0 without rows
    saved.power = Tensor::empty({channels}, acc, device);
    saved.ema_gz = of.ema_gz;
    saved.next_ema_gz = of.next_ema_gz;
    saved.batch = std::move(batch);
    run_on(device, PowerNormSquares{saved.shape, saved.x.raw(), squares.raw()});
    if (saved.batch) saved.batch->add_up(squares);
    args.squares = squares.raw();
    args.count = saved.batch ? saved.batch->rows() : rows;
    args.iterations = of.iterations.raw();
    args.warmup = o.warmup;
    args.alpha = o.alpha_forward;
    args.power = saved.power.raw();
    args.next_running_phi = ctx.mode.recompute ? nullptr : of.next_running_phi.raw();
    args.next_iterations = ctx.mode.recompute ? nullptr : of.next_iterations.raw();
  }
  run_on(device, args);
  return ctx.record("power_norm", y, {&x, &weight, &bias},
                    [saved](const Tensor& dy) { saved.backward(dy); });
}

namespace reference {
namespace e = primitive;

Variable power_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                    const PowerNormOptions& o, const PowerNormState& state) {
  const std::int64_t channels = x.dim(-1), rows = x.value().numel() / channels;
  Variable split = e::reshape(ctx, e::upcast(ctx, x), {rows, o.groups, channels / o.groups});
  Variable squares = e::mean(ctx, e::mul(ctx, split, split), -1);
  Variable z0 = e::reshape(ctx, e::div(ctx, split, e::sqrt(ctx, e::affine(ctx, squares, 1, o.eps))),
                           {rows, channels});

  // From here on psi is a constant, through which no gradient flows.
  Context plain;
  Variable phi = e::reshape(plain, Variable(state.running_phi), {1, channels});
  double iteration = 1;
  const Tensor iterations = state.iterations.to(kCpu);
  dispatch_real(iterations.dtype(), [&](auto zero) {
    iteration += static_cast<double>(*iterations.data<decltype(zero)>());
  });
  if (ctx.training() && iteration <= static_cast<double>(o.warmup))
    phi = e::mean(plain, e::mul(plain, Variable(z0.value()), Variable(z0.value())), 0);
  Variable z = e::div(ctx, z0, e::sqrt(plain, e::affine(plain, phi, 1, o.eps)));
  if (ctx.training()) {
    Variable ema = e::reshape(plain, Variable(state.ema_gz), {1, channels});
    z = damped(ctx, z, e::affine(plain, ema, 1 - o.alpha_backward).value());
  }
  Variable y = e::add(ctx, e::mul(ctx, z, weight), bias);
  return e::cast(ctx, e::reshape(ctx, y, x.shape()), x.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
