#include "ops/dtn/dtn_norm.h"

#include <cstddef>
#include <utility>

#include "dtn/core/check.h"
#include "ops/dtn/dtn_prefix.h"
#include "ops/norm/norm_gradients.h"
#include "ops/pointwise/modulation_parts.h"

namespace dtn::ops {
namespace {

const void* skip(const void* p, std::size_t bytes) {
  return p ? static_cast<const std::byte*>(p) + bytes : nullptr;
}
void* skip(void* p, std::size_t bytes) { return p ? static_cast<std::byte*>(p) + bytes : nullptr; }

const void* raw_or_null(const Variable* v) { return v ? v->value().raw() : nullptr; }

GradSink sink_or_null(const Variable* v) { return v ? v->sink() : nullptr; }

void check_modulation(const Variable& x, const Variable& modulation, const DtnNormInputs& in,
                      const DtnNormShape& shape) {
  check_like("dtn", "modulation", modulation, {x.dim(0), 2 * x.dim(2)}, accumulator_of(x.dtype()));
  DTN_CHECK(x.device() == kCpu && in.plan && shape.prefix == 0,
            "dtn: a modulation needs the CPU and a grid without a prefix");
}

// Inputs of both passes, kept by the tape.
struct Passes {
  DtnNormShape shape;
  DType acc;
  Device device;
  Tensor x, weight, modulation, lambda_mean, lambda_var;
  std::shared_ptr<const DtnPlan> plan;  // null: all tokens belong to the prefix
  std::optional<DtnPrefix> prefix{};
  Tensor token_mean{}, token_var{}, pivot{}, head_rstd{};

  Passes(const Variable& input, const DtnNormInputs& in, const DtnNormShape& of)
      : shape(of),
        acc(accumulator_of(input.dtype())),
        device(input.device()),
        x(input.value()),
        weight(in.modulation ? Tensor() : in.weight.value()),
        modulation(in.modulation ? in.modulation->value() : Tensor()),
        lambda_mean(in.mean.value),
        lambda_var(in.var.value),
        plan(in.plan) {
    const std::int64_t batch = x.dim(0), tokens = shape.tokens();
    token_mean = Tensor::empty({batch, tokens}, acc, device);
    token_var = Tensor::empty({batch, tokens}, acc, device);
    pivot = Tensor::empty({batch, channels()}, acc, device);
    if (shape.variant == DtnVariant::kOfficial) {
      head_rstd = Tensor::empty({batch, shape.heads, tokens}, DType::kFloat64, device);
    }
  }

  std::int64_t channels() const { return x.dim(2); }

  DtnNormArguments arguments() const {
    auto raw = [](Tensor t) { return t.raw(); };  // the forward pass writes some
    DtnNormArguments args{};
    args.dtype = x.dtype();
    args.batch = x.dim(0);
    args.grid_h = shape.grid_h;
    args.grid_w = shape.grid_w;
    args.channels = channels();
    args.heads = shape.heads;
    args.eps = shape.eps;
    args.variant = shape.variant;
    args.image_stride = x.dim(1) * channels();
    args.x = skip(raw(x), ahead());
    args.weight = raw(weight);
    if (modulation.defined()) {
      args.weight = skip(raw(modulation), scales_at());
      args.parameter_stride = 2 * channels();
      args.scales = true;
    }
    args.lambda_mean = raw(lambda_mean);
    args.lambda_var = raw(lambda_var);
    args.pool = shape.pool;
    args.token_mean = raw(token_mean);
    args.token_var = raw(token_var);
    args.pivot = raw(pivot);
    args.head_rstd = raw(head_rstd);
    return args;
  }

  // Returns the bytes before the scales in a modulation.
  std::size_t scales_at() const {
    return static_cast<std::size_t>(channels()) * static_cast<std::size_t>(size_of(acc));
  }
  // Returns the bytes before the grid in an image.
  std::size_t ahead() const {
    return static_cast<std::size_t>(shape.prefix * channels()) *
           static_cast<std::size_t>(size_of(x.dtype()));
  }

  // Backward pass of the tokens of the grid. The tensors of `args` include the tokens before it.
  void backward(DtnNormBackward args, const GradSink& dposition, const GradSink& dmean,
                const GradSink& dvar) const {
    args.dlambda_mean = buffer_or_null(dmean, {shape.heads}, acc, device);
    args.dlambda_var = buffer_or_null(dvar, {shape.heads}, acc, device);
    args.by_logits = true;
    args.dy = skip(args.dy, ahead());
    args.dx_add = skip(args.dx_add, ahead());
    args.dx = skip(args.dx, ahead());
    plan->backward(args, dposition);
  }
};

}  // namespace

Variable dtn_norm(Context& ctx, const Variable& x, const DtnNormInputs& in,
                  const DtnNormShape& shape, const FusedSum* sum) {
  if (in.modulation) check_modulation(x, *in.modulation, in, shape);
  Passes passes(x, in, shape);
  Tensor y = Tensor::empty_like(x.value());
  if (passes.plan) {
    const Tensor& bias = in.modulation ? passes.modulation : in.bias.value();
    DtnNormForward args{passes.arguments(), bias.raw(), skip(y.raw(), passes.ahead())};
    args.logits = {raw_or_null(in.mean.logits), raw_or_null(in.var.logits),
                   passes.lambda_mean.raw(), passes.lambda_var.raw()};
    if (sum) {
      args.sum = {sum->residual.raw(), sum->branch.raw(), sum->scale.raw(), passes.x.raw()};
    }
    passes.plan->forward(args);
  }
  if (shape.prefix > 0) {
    passes.prefix.emplace(x.value(), shape.prefix, shape.eps, passes.weight);
    passes.prefix->forward(in.bias.value(), y);
  }

  auto backward = [passes, dx = x.sink(), dweight = in.weight.sink(), dbias = in.bias.sink(),
                   dposition = sink_or_null(in.position), dmean = sink_or_null(in.mean.logits),
                   dvar = sink_or_null(in.var.logits), to_modulation = sink_or_null(in.modulation),
                   branch = sum ? sum->gradient : BranchGradient()](const Tensor& dy) {
    const std::int64_t channels = passes.channels();
    NormInputGradient input(dx, passes.x);
    DtnNormBackward back{passes.arguments(), dy.raw()};
    back.dx_add = input.waiting();
    back.dx = input.destination();
    Tensor dbranch = back.dx ? branch.make_like(passes.x) : Tensor();
    if (dbranch.defined()) {
      back.dbranch = dbranch.raw();
      back.dbranch_sums = branch.sum_columns();
      back.branch_scale = branch.scale().raw();
    }
    back.dweight = buffer_or_null(dweight, {channels}, passes.acc, passes.device);
    back.dbias = buffer_or_null(dbias, {channels}, passes.acc, passes.device);
    Tensor dmodulation;
    if (to_modulation) {
      dmodulation = Tensor::zeros(passes.modulation.shape(), passes.acc, passes.device);
      back.dbias = dmodulation.raw();
      back.dweight = skip(dmodulation.raw(), passes.scales_at());
    }
    // Runs before the grid's pass, which may overwrite the waiting gradient.
    if (passes.prefix) {
      passes.prefix->backward(back.dy, back.dx_add, back.dx, back.dweight, back.dbias);
    }
    if (passes.plan) passes.backward(back, dposition, dmean, dvar);
    input.deliver();
    deliver(to_modulation, std::move(dmodulation));
  };
  return ctx.record(
      "dtn", y,
      {&x, &in.weight, &in.bias, in.modulation, in.position, in.mean.logits, in.var.logits},
      std::move(backward));
}

}  // namespace dtn::ops
