#include "dtn/ops/modulation.h"

#include "dtn/ops/primitive.h"
#include "kernels/norm/channel_moments.h"
#include "kernels/norm/channel_norm.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/pointwise/modulate.h"
#include "ops/norm/channel_norm.h"
#include "ops/norm/norm_gradients.h"
#include "ops/outputs.h"
#include "ops/pointwise/modulation_parts.h"

namespace dtn::ops {
namespace {

Shape without_last(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1)));
}

}  // namespace

Standardized standardize_tokens(Context& ctx, const Variable& x, double eps) {
  const DType acc = accumulator_of(x.dtype());
  const std::int64_t channels = x.dim(-1), rows = x.value().numel() / channels;
  const Shape moments = without_last(x.shape());
  Tensor y = Tensor::empty_like(x.value());
  Tensor offset = Tensor::empty({rows}, acc, x.device()), rstd = Tensor::empty_like(offset);
  Tensor mean = Tensor::empty(moments, acc, x.device()), std = Tensor::empty_like(mean);
  LayerNormForward args{};
  args.dtype = x.dtype();
  args.rows = rows;
  args.channels = channels;
  args.eps = eps;
  args.x = x.value().raw();
  args.y = y.raw();
  args.mean = offset.raw();
  args.rstd = rstd.raw();
  args.row_mean = mean.raw();
  args.row_std = std.raw();
  run_on(x.device(), args);

  auto outputs =
      record_outputs<3>(ctx, "standardize_tokens", {y, mean, std}, {&x},
                        [=, x = x.value(), dx = x.sink()](const std::array<Tensor, 3>& gradients) {
                          auto [dy, dmean, dstd] = gradients;
                          if (!dy.defined()) dy = Tensor::zeros(x.shape(), x.dtype(), x.device());
                          NormInputGradient input(dx, x);
                          LayerNormBackward back{};
                          back.dtype = x.dtype();
                          back.rows = rows;
                          back.channels = channels;
                          back.x = x.raw();
                          back.mean = offset.raw();
                          back.rstd = rstd.raw();
                          back.dy = dy.raw();
                          back.dx_add = input.waiting();
                          back.dx = input.destination();
                          back.drow_mean = raw_or_null(dmean);
                          back.drow_std = raw_or_null(dstd);
                          run_on(x.device(), back);
                          input.deliver();
                        });
  return {outputs[0], outputs[1], outputs[2]};
}

MeanAndDeviation channel_moments(Context& ctx, const Variable& x, double eps) {
  DTN_CHECK(x.value().rank() == 3, "channel_moments: input ", to_string(x.shape()),
            " is not [B, T, C]");
  const DType acc = accumulator_of(x.dtype());
  const Shape shape{x.dim(0), x.dim(2)};
  const ChannelNorm how{x.dim(0), x.dim(2), eps};
  ChannelMoments statistics = channel_statistics(x.value(), how);
  Tensor moments = Tensor::empty({2, x.dim(0), x.dim(2)}, acc, x.device());
  run_on(x.device(),
         ChannelMomentsForward{acc, shape.numel(), eps, statistics.mean.raw(),
                               statistics.rest.raw(), statistics.variance.raw(), moments.raw()});
  Tensor mean = moments.slice(0, 1).reshape(shape), std = moments.slice(1, 2).reshape(shape);
  auto outputs = record_outputs<2>(
      ctx, "channel_moments", {mean, std}, {&x},
      [=, x = x.value(), to_x = x.sink()](const std::array<Tensor, 2>& gradients) {
        auto [dmean, dstd] = gradients;
        Tensor sums = Tensor::empty({shape[0], 2, shape[1]}, acc, x.device());
        run_on(x.device(),
               ChannelMomentsBackward{acc, shape[0], shape[1], std.raw(), raw_or_null(dmean),
                                      raw_or_null(dstd), sums.raw()});
        Tensor dx = Tensor::zeros(x.shape(), x.dtype(), x.device());
        ChannelNormBackward back{};
        back.dtype = x.dtype();
        back.part = ChannelNormPart::kApplication;
        back.sets = shape[0];
        back.rows = x.dim(1);
        back.channels = back.groups = shape[1];
        back.eps = eps;
        back.x = x.raw();
        back.mean = statistics.mean.raw();
        back.mean_rest = statistics.rest.raw();
        back.variance = statistics.variance.raw();
        back.dy = dx.raw();
        back.sums = sums.raw();
        back.dx = dx.raw();
        run_on(x.device(), back);
        to_x->accumulate(std::move(dx));
      });
  return {outputs[0], outputs[1]};
}

Variable scale_shift_tokens(Context& ctx, const Variable& x, const Variable& gain,
                            const Variable& shift) {
  const DType acc = accumulator_of(x.dtype());
  const Shape tokens = without_last(x.shape());
  check_like("scale_shift_tokens", "gain", gain, tokens, acc);
  check_like("scale_shift_tokens", "shift", shift, tokens, acc);
  const std::int64_t channels = x.dim(-1), rows = tokens.numel();
  Tensor y = Tensor::empty_like(x.value());
  run_on(x.device(), ScaleShiftRowsForward{x.dtype(), rows, channels, x.value().raw(),
                                           gain.value().raw(), shift.value().raw(), y.raw()});
  return ctx.record(
      "scale_shift_tokens", y, {&x, &gain, &shift},
      [=, x = x.value(), gain = gain.value(), to_x = x.sink(), to_gain = gain.sink(),
       to_shift = shift.sink()](const Tensor& dy) {
        Tensor dx = empty_if(to_x, x.shape(), x.dtype(), x.device());
        Tensor dgain = empty_if(to_gain, tokens, acc, x.device());
        Tensor dshift = empty_if(to_shift, tokens, acc, x.device());
        run_on(x.device(),
               ScaleShiftRowsBackward{x.dtype(), rows, channels, x.raw(), gain.raw(), dy.raw(),
                                      raw_or_null(dx), raw_or_null(dgain), raw_or_null(dshift)});
        deliver(to_x, std::move(dx));
        deliver(to_gain, std::move(dgain));
        deliver(to_shift, std::move(dshift));
      });
}

Variable modulate(Context& ctx, const Variable& x, const Variable& modulation) {
  const std::int64_t channels = x.dim(-1), rows = x.value().numel() / channels;
  check_like("modulate", "modulation", modulation, with_last(x.shape(), 2 * channels), x.dtype());
  Tensor y = Tensor::empty_like(x.value());
  run_on(x.device(), ModulateForward{x.dtype(), rows, channels, x.value().raw(),
                                     modulation.value().raw(), y.raw()});
  return ctx.record(
      "modulate", y, {&x, &modulation},
      [=, x = x.value(), modulation = modulation.value(), to_x = x.sink(),
       to_modulation = modulation.sink()](const Tensor& dy) {
        NormInputGradient input(to_x, x);
        Tensor dmodulation = empty_if(to_modulation, modulation.shape(), x.dtype(), x.device());
        run_on(x.device(),
               ModulateBackward{x.dtype(), rows, channels, x.raw(), modulation.raw(), dy.raw(),
                                input.waiting(), input.destination(), raw_or_null(dmodulation)});
        input.deliver();
        deliver(to_modulation, std::move(dmodulation));
      });
}

Variable modulate_samples(Context& ctx, const Variable& x, const Variable& modulation) {
  DTN_CHECK(x.value().rank() == 3, "modulate_samples: input ", to_string(x.shape()),
            " is not [B, T, C]");
  const DType acc = accumulator_of(x.dtype());
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), channels = x.dim(2);
  check_like("modulate_samples", "modulation", modulation, {batch, 2 * channels}, acc);
  Tensor y = Tensor::empty_like(x.value());
  run_on(x.device(), ModulateSamplesForward{x.dtype(), batch, tokens, channels, x.value().raw(),
                                            modulation.value().raw(), y.raw()});
  return ctx.record(
      "modulate_samples", y, {&x, &modulation},
      [=, x = x.value(), modulation = modulation.value(), to_x = x.sink(),
       to_modulation = modulation.sink()](const Tensor& dy) {
        NormInputGradient input(to_x, x);
        Tensor dmodulation = empty_if(to_modulation, modulation.shape(), acc, x.device());
        run_on(x.device(), ModulateSamplesBackward{x.dtype(), batch, tokens, channels, x.raw(),
                                                   modulation.raw(), dy.raw(), input.waiting(),
                                                   input.destination(), raw_or_null(dmodulation)});
        input.deliver();
        deliver(to_modulation, std::move(dmodulation));
      });
}

Variable gated_add(Context& ctx, const Variable& residual, const Variable& gate,
                   const Variable& branch) {
  DTN_CHECK(branch.value().rank() == 3, "gated_add: branch ", to_string(branch.shape()),
            " is not [B, T, C]");
  const DType acc = accumulator_of(branch.dtype());
  const std::int64_t batch = branch.dim(0), tokens = branch.dim(1), channels = branch.dim(2);
  check_like("gated_add", "residual", residual, branch.shape(), branch.dtype());
  check_like("gated_add", "gate", gate, {batch, channels}, acc);
  Tensor y = Tensor::empty_like(branch.value());
  run_on(branch.device(), GateForward{branch.dtype(), batch, tokens, channels, branch.value().raw(),
                                      gate.value().raw(), residual.value().raw(), y.raw()});
  return ctx.record("gated_add", y, {&residual, &gate, &branch},
                    [=, branch = branch.value(), gate = gate.value(), to_residual = residual.sink(),
                     to_gate = gate.sink(), to_branch = branch.sink()](const Tensor& dy) {
                      Tensor dbranch =
                          empty_if(to_branch, branch.shape(), branch.dtype(), branch.device());
                      Tensor dgate = empty_if(to_gate, {batch, channels}, acc, branch.device());
                      run_on(dy.device(), GateBackward{branch.dtype(), batch, tokens, channels,
                                                       branch.raw(), gate.raw(), dy.raw(),
                                                       raw_or_null(dbranch), raw_or_null(dgate)});
                      deliver(to_branch, std::move(dbranch));
                      deliver(to_gate, std::move(dgate));
                      deliver(to_residual, dy);
                    });
}

namespace reference {
using namespace primitive;

namespace {

// [...] -> [..., 1]
Variable beside_channels(Context& ctx, const Variable& v, const Shape& like) {
  return reshape(ctx, v, with_last(like, 1));
}

}  // namespace

Standardized standardize_tokens(Context& ctx, const Variable& x, double eps) {
  const Variable wide = upcast(ctx, x), average = mean(ctx, wide, -1);
  Variable centred = sub(ctx, wide, average);
  Variable std = sqrt(ctx, affine(ctx, mean(ctx, mul(ctx, centred, centred), -1), 1, eps));
  const Shape moments = without_last(x.shape());
  return {cast(ctx, div(ctx, centred, std), x.dtype()), reshape(ctx, average, moments),
          reshape(ctx, std, moments)};
}

MeanAndDeviation channel_moments(Context& ctx, const Variable& x, double eps) {
  const Variable wide = upcast(ctx, x), average = mean(ctx, wide, 1);
  Variable centred = sub(ctx, wide, average);
  Variable std = sqrt(ctx, affine(ctx, mean(ctx, mul(ctx, centred, centred), 1), 1, eps));
  const Shape moments{x.dim(0), x.dim(2)};
  return {reshape(ctx, average, moments), reshape(ctx, std, moments)};
}

Variable scale_shift_tokens(Context& ctx, const Variable& x, const Variable& gain,
                            const Variable& shift) {
  Variable scaled = mul(ctx, upcast(ctx, x), beside_channels(ctx, gain, x.shape()));
  return cast(ctx, add(ctx, scaled, beside_channels(ctx, shift, x.shape())), x.dtype());
}

Variable modulate(Context& ctx, const Variable& x, const Variable& modulation) {
  const std::int64_t channels = x.dim(-1);
  const Variable wide = upcast(ctx, modulation);
  Variable shift = narrow(ctx, wide, -1, 0, channels);
  Variable gain = narrow(ctx, wide, -1, channels, 2 * channels);
  return cast(ctx, add(ctx, mul(ctx, upcast(ctx, x), affine(ctx, gain, 1, 1)), shift), x.dtype());
}

Variable modulate_samples(Context& ctx, const Variable& x, const Variable& modulation) {
  const std::int64_t channels = x.dim(2);
  const Variable parts = reshape(ctx, modulation, {x.dim(0), 1, 2 * channels});
  const Variable shift = narrow(ctx, parts, 2, 0, channels);
  const Variable scale = narrow(ctx, parts, 2, channels, 2 * channels);
  return cast(ctx, add(ctx, mul(ctx, upcast(ctx, x), affine(ctx, scale, 1, 1)), shift), x.dtype());
}

Variable gated_add(Context& ctx, const Variable& residual, const Variable& gate,
                   const Variable& branch) {
  Variable per_token = reshape(ctx, gate, {branch.dim(0), 1, branch.dim(2)});
  Variable gated = mul(ctx, per_token, upcast(ctx, branch));
  return cast(ctx, add(ctx, upcast(ctx, residual), gated), residual.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
