#include "dtn/ops/diffusion.h"

#include <numbers>

#include "dtn/ops/primitive.h"
#include "kernels/loss/diffusion_loss.h"
#include "ops/host_constant.h"

namespace dtn::ops {
namespace {

static_assert(sizeof(DiffusionStep) == kScheduleColumns * sizeof(double));

const DiffusionStep* steps_of(const DiffusionBatch& batch) {
  return static_cast<const DiffusionStep*>(batch.schedule.raw());
}

void check_batch(const char* op, const DiffusionBatch& batch) {
  DTN_CHECK(batch.image.defined() && batch.image.rank() == 4, op,
            ": the images are not [B, C, H, W]");
  DTN_CHECK(batch.noise.defined() && batch.noise.shape() == batch.image.shape() &&
                batch.noise.dtype() == batch.image.dtype(),
            op, ": the noise must have shape and type of the images, ",
            to_string(batch.image.shape()));
  DTN_CHECK(batch.schedule.defined() && batch.schedule.rank() == 2 &&
                batch.schedule.dim(1) == kScheduleColumns &&
                batch.schedule.dtype() == DType::kFloat64,
            op, ": the schedule must be float64 [steps, ", kScheduleColumns, "]");
  const std::int64_t rows = batch.image.dim(0), steps = batch.schedule.dim(0);
  DTN_CHECK(batch.time.defined() && batch.time.shape() == Shape{rows} &&
                batch.time.dtype() == DType::kInt64,
            op, ": needs int64 time steps for ", rows, " images");
  if (batch.time.device() != kCpu) return;  // the kernel gives NaN
  for (std::int64_t b = 0; b < rows; ++b) {
    const std::int64_t t = batch.time.data<std::int64_t>()[b];
    DTN_CHECK(0 <= t && t < steps, op, ": time step ", t, " of image ", b, " is outside [0, ",
              steps, ")");
  }
}

// Returns true if the output has a learned variance.
bool check_output(const Variable& output, const DiffusionBatch& batch) {
  check_batch("diffusion_loss", batch);
  const Shape& image = batch.image.shape();
  const std::int64_t channels = image[1];
  const bool shaped = output.value().rank() == 4 && output.dim(0) == image[0] &&
                      output.dim(2) == image[2] && output.dim(3) == image[3] &&
                      (output.dim(1) == channels || output.dim(1) == 2 * channels);
  DTN_CHECK(shaped, "diffusion_loss: the output is ", to_string(output.shape()), " for images ",
            to_string(image), "; it needs their channels once or twice");
  DTN_CHECK(batch.image.dtype() == accumulator_of(output.dtype()),
            "diffusion_loss: the images must be ", name_of(accumulator_of(output.dtype())));
  return output.dim(1) != channels;
}

DiffusionLossInputs kernel_inputs(const Tensor& output, const DiffusionBatch& batch,
                                  bool learned_variance) {
  return {.dtype = output.dtype(),
          .batch = batch.image.dim(0),
          .values = batch.image.numel() / batch.image.dim(0),
          .learned_variance = learned_variance,
          .output = output.raw(),
          .noise = batch.noise.raw(),
          .start = batch.image.raw(),
          .time = static_cast<const std::int64_t*>(batch.time.raw()),
          .schedule = steps_of(batch),
          .steps = batch.schedule.dim(0)};
}

}  // namespace

Tensor noisy_images(const DiffusionBatch& batch) {
  check_batch("noisy_images", batch);
  Tensor noisy = Tensor::empty_like(batch.image);
  run_on(noisy.device(), DiffuseImages{.dtype = noisy.dtype(),
                                       .batch = noisy.dim(0),
                                       .values = noisy.numel() / noisy.dim(0),
                                       .start = batch.image.raw(),
                                       .noise = batch.noise.raw(),
                                       .time = static_cast<const std::int64_t*>(batch.time.raw()),
                                       .schedule = steps_of(batch),
                                       .steps = batch.schedule.dim(0),
                                       .noisy = noisy.raw()});
  return noisy;
}

DiffusionLoss diffusion_loss(Context& ctx, const Variable& output, const DiffusionBatch& batch) {
  const bool learned = check_output(output, batch);
  const DType acc = accumulator_of(output.dtype());
  const Device device = output.device();
  const std::int64_t rows = batch.image.dim(0);
  constexpr std::int64_t kFigures = sizeof(DiffusionFigures<float>) / sizeof(float);
  DiffusionLoss result;
  result.mse = Tensor::empty({rows}, acc, device);
  if (learned) result.vb = Tensor::empty({rows}, acc, device);
  Tensor loss = Tensor::empty({1}, acc, device);
  Tensor figures = Tensor::empty({kFigures}, acc, device);
  run_on(device,
         DiffusionLossForward{kernel_inputs(output.value(), batch, learned), result.mse.raw(),
                              result.vb.raw(), loss.raw(), figures.raw()});
  result.mean_mse = figures.slice(0, 1);
  result.mean_vb = figures.slice(1, 2);
  result.quartile_mse = figures.slice(2, 2 + kTimeQuartiles);
  result.quartile_share = figures.slice(2 + kTimeQuartiles, kFigures);
  result.mean = ctx.record(
      "diffusion_loss", loss, {&output},
      [batch, learned, output = output.value(), doutput = output.sink()](const Tensor& dy) {
        Tensor grad = output.unique() ? output : Tensor::empty_like(output);
        run_on(dy.device(),
               DiffusionLossBackward{kernel_inputs(output, batch, learned), dy.raw(), grad.raw()});
        doutput->accumulate(std::move(grad));
      });
  return result;
}

namespace reference {
using namespace primitive;

namespace {

// Returns one constant of each image's time step, [B, 1, 1, 1]; 0 at steps that are left out.
enum class Steps { kAll, kFirst, kLater };
Variable constant_of(const DiffusionBatch& batch, double DiffusionStep::*member, Steps which,
                     DType dtype) {
  const Tensor schedule = batch.schedule.to(kCpu), time = batch.time.to(kCpu);
  const auto* steps = static_cast<const DiffusionStep*>(schedule.raw());
  return Variable(host_constant(
      {batch.image.dim(0), 1, 1, 1}, dtype, batch.image.device(), [&](std::int64_t b) {
        const std::int64_t t = time.data<std::int64_t>()[b];
        const bool counts = which == Steps::kAll || (which == Steps::kFirst) == (t == 0);
        return counts ? steps[t].*member : 0.0;
      }));
}

// The normal distribution function by its tanh approximation.
Variable mass_below(Context& ctx, const Variable& u) {
  const Variable cubic = affine(ctx, mul(ctx, mul(ctx, u, u), u), 0.044715);
  const double scale = std::sqrt(2 / std::numbers::pi);
  return affine(ctx, tanh(ctx, affine(ctx, add(ctx, u, cubic), scale)), 0.5, 0.5);
}

// Nats of the first time step. `s` is f r, `gap` is g (e' - e).
Variable decoder_nats(Context& ctx, const Variable& start, const Variable& gap, const Variable& s,
                      const Variable& log_variance) {
  const Variable scale = exp(ctx, affine(ctx, add(ctx, log_variance, s), -0.5));
  const Variable below_high = mass_below(ctx, mul(ctx, affine(ctx, gap, 1, 1.0 / 255), scale));
  const Variable below_low = mass_below(ctx, mul(ctx, affine(ctx, gap, 1, -1.0 / 255), scale));
  const Variable edge = constant(start, 0.999);
  Variable mass = sub(ctx, below_high, below_low);
  mass = where(ctx, greater(start, edge), affine(ctx, below_low, -1, 1), mass);
  mass = where(ctx, greater(neg(ctx, start), edge), below_high, mass);
  return neg(ctx, log(ctx, maximum(ctx, mass, constant(mass, 1e-12))));
}

// The variational bound of each image in bits per value, [B, 1, 1, 1].
Variable bound_of(Context& ctx, const Variable& difference, const Variable& v,
                  const DiffusionBatch& batch) {
  const DType dtype = difference.dtype();
  const auto all = [&](double DiffusionStep::*m) {
    return constant_of(batch, m, Steps::kAll, dtype);
  };
  const Variable s = mul(ctx, affine(ctx, v, 0.5, 0.5), all(&DiffusionStep::log_range));
  const Variable shrunk = exp(ctx, neg(ctx, s));
  const Variable square = mul(ctx, difference, difference);
  const Variable gap = mul(ctx, mul(ctx, all(&DiffusionStep::gap_weight), square), shrunk);
  const Variable later = affine(ctx, add(ctx, add(ctx, s, shrunk), gap), 0.5, -0.5);
  const Variable first =
      decoder_nats(ctx, Variable(batch.image), mul(ctx, difference, all(&DiffusionStep::gap)), s,
                   all(&DiffusionStep::log_variance));
  const Variable is_later =
      greater(constant_of(batch, &DiffusionStep::noise, Steps::kLater, dtype), constant(s, 0));
  const Variable nats = where(ctx, broadcast_to(ctx, is_later, s.shape()), later, first);
  return affine(ctx, mean(ctx, nats, {1, 2, 3}), 1 / std::numbers::ln2);
}

}  // namespace

Variable diffusion_loss(Context& ctx, const Variable& output, const DiffusionBatch& batch) {
  const bool learned = check_output(output, batch);
  const std::int64_t channels = batch.image.dim(1);
  const Variable wide = upcast(ctx, output);
  const Variable predicted = narrow(ctx, wide, 1, 0, channels);
  const Variable difference = sub(ctx, predicted, Variable(batch.noise));
  Variable each = mean(ctx, mul(ctx, difference, difference), {1, 2, 3});
  if (learned) {
    const Variable v = narrow(ctx, wide, 1, channels, 2 * channels);
    each = add(ctx, each, bound_of(ctx, detach(difference), v, batch));
  }
  return reshape(ctx, mean(ctx, each, 0), {1});
}

}  // namespace reference
}  // namespace dtn::ops
