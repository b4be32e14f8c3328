#include "dtn/ops/detection.h"

#include "dtn/ops/primitive.h"
#include "kernels/loss/box_loss.h"
#include "kernels/loss/focal_loss.h"
#include "ops/host_constant.h"

namespace dtn::ops {
namespace {

static_assert(kBackground == kLabelBackground && kIgnored == kLabelIgnored);

// Checks the outputs of a level, [B, n, values], and the labels of their anchors.
AnchorLabels checked_labels(const char* op, const Variable& outputs, const AnchorTargets& targets) {
  DTN_CHECK(outputs.value().rank() == 3, op, ": the outputs must be [B, n, values], not ",
            to_string(outputs.shape()));
  const std::int64_t batch = outputs.dim(0), anchors = outputs.dim(1);
  const Tensor& labels = targets.labels;
  DTN_CHECK(labels.defined() && labels.rank() == 2 && labels.dim(0) == batch &&
                labels.dtype() == DType::kInt64,
            op, ": needs int64 labels [", batch, ", N]");
  DTN_CHECK(0 <= targets.first && targets.first + anchors <= labels.dim(1), op, ": anchors ",
            targets.first, " to ", targets.first + anchors, " are not among the ", labels.dim(1),
            " labels of an image");
  const auto* all = static_cast<const std::int64_t*>(labels.raw());
  return {batch, anchors, all + targets.first, labels.dim(1)};
}

void check_scale(const char* op, const Variable& outputs, const Tensor& scale) {
  DTN_CHECK(scale.defined() && scale.numel() == 1 &&
                scale.dtype() == accumulator_of(outputs.dtype()) &&
                scale.device() == outputs.device(),
            op, ": the scale must be one ", name_of(accumulator_of(outputs.dtype())),
            " on the device of the outputs");
}

FocalLossInputs focal_inputs(const Variable& logits, const AnchorTargets& targets,
                             const Tensor& scale, const FocalOptions& options) {
  const AnchorLabels labels = checked_labels("focal_loss", logits, targets);
  check_scale("focal_loss", logits, scale);
  DTN_CHECK(options.gamma >= 0, "focal_loss: gamma is ", options.gamma, "; it must be at least 0");
  const std::int64_t classes = logits.dim(2);
  if (targets.labels.device() == kCpu) {  // elsewhere the kernel gives NaN
    for (std::int64_t b = 0; b < labels.batch; ++b) {
      for (std::int64_t i = 0; i < labels.anchors; ++i) {
        const std::int64_t label = labels.at(b, i);
        DTN_CHECK(kIgnored <= label && label < classes, "focal_loss: label ", label, " of anchor ",
                  targets.first + i, " of image ", b, " is outside [", kIgnored, ", ", classes,
                  ")");
      }
    }
  }
  return {labels,      logits.dtype(), classes,      logits.value().raw(),
          scale.raw(), options.alpha,  options.gamma};
}

BoxLossInputs box_inputs(const Variable& deltas, const AnchorTargets& targets,
                         const Tensor& scale) {
  const AnchorLabels labels = checked_labels("box_loss", deltas, targets);
  check_scale("box_loss", deltas, scale);
  const Shape want{labels.batch, labels.stride, kBoxDeltas};
  DTN_CHECK(deltas.dim(2) == kBoxDeltas, "box_loss: the deltas must be [B, n, 4], not ",
            to_string(deltas.shape()));
  DTN_CHECK(targets.deltas.defined() && targets.deltas.shape() == want &&
                targets.deltas.dtype() == accumulator_of(deltas.dtype()),
            "box_loss: the target deltas must be ", name_of(accumulator_of(deltas.dtype())), " ",
            to_string(want));
  const auto bytes =
      static_cast<std::size_t>(targets.first * kBoxDeltas) * size_of(targets.deltas.dtype());
  return {labels, deltas.dtype(), deltas.value().raw(),
          static_cast<const std::byte*>(targets.deltas.raw()) + bytes, scale.raw()};
}

// The tensor itself if nothing else uses its memory, else a new one.
Tensor overwritten(const Tensor& t) { return t.unique() ? t : Tensor::empty_like(t); }

}  // namespace

Variable focal_loss(Context& ctx, const Variable& logits, const AnchorTargets& targets,
                    const Tensor& scale, const FocalOptions& options) {
  const FocalLossInputs inputs = focal_inputs(logits, targets, scale, options);
  Tensor loss = Tensor::empty({1}, accumulator_of(logits.dtype()), logits.device());
  run_on(logits.device(), FocalLossForward{inputs, loss.raw()});
  // Keeps the labels and the scale alive, because `inputs` points to them.
  return ctx.record("focal_loss", loss, {&logits},
                    [inputs, labels = targets.labels, scale, logits = logits.value(),
                     dlogits = logits.sink()](const Tensor& dy) {
                      Tensor grad = overwritten(logits);
                      run_on(dy.device(), FocalLossBackward{inputs, dy.raw(), grad.raw()});
                      dlogits->accumulate(std::move(grad));
                    });
}

Variable box_loss(Context& ctx, const Variable& deltas, const AnchorTargets& targets,
                  const Tensor& scale) {
  const BoxLossInputs inputs = box_inputs(deltas, targets, scale);
  Tensor loss = Tensor::empty({1}, accumulator_of(deltas.dtype()), deltas.device());
  run_on(deltas.device(), BoxLossForward{inputs, loss.raw()});
  return ctx.record("box_loss", loss, {&deltas},
                    [inputs, kept = targets, scale, deltas = deltas.value(),
                     ddeltas = deltas.sink()](const Tensor& dy) {
                      Tensor grad = overwritten(deltas);
                      run_on(dy.device(), BoxLossBackward{inputs, dy.raw(), grad.raw()});
                      ddeltas->accumulate(std::move(grad));
                    });
}

namespace reference {
using namespace primitive;

namespace {

// Returns value(label, k) for all outputs [B, n, values].
template <class F>
Variable of_labels(const Variable& outputs, const AnchorTargets& targets, F&& value) {
  const Tensor labels = targets.labels.to(kCpu);
  const std::int64_t anchors = outputs.dim(1), values = outputs.dim(2);
  return Variable(
      host_constant(outputs.shape(), outputs.dtype(), outputs.device(), [&](std::int64_t i) {
        const std::int64_t row = i / values, b = row / anchors;
        const std::int64_t place = b * labels.dim(1) + targets.first + row % anchors;
        return value(labels.data<std::int64_t>()[place], i % values);
      }));
}

Variable scaled_sum(Context& ctx, const Variable& each, const Tensor& scale) {
  const Variable total = reshape(ctx, sum(ctx, each, {0, 1, 2}), {1});
  return mul(ctx, total, Variable(scale));
}

}  // namespace

Variable focal_loss(Context& ctx, const Variable& logits, const AnchorTargets& targets,
                    const Tensor& scale, const FocalOptions& options) {
  focal_inputs(logits, targets, scale, options);
  const Variable z = upcast(ctx, logits);
  const Variable sign = of_labels(
      z, targets, [](std::int64_t label, std::int64_t k) { return label == k ? -1.0 : 1.0; });
  const Variable weight = of_labels(z, targets, [&](std::int64_t label, std::int64_t k) {
    return label == kIgnored ? 0.0 : label == k ? options.alpha : 1 - options.alpha;
  });
  const Variable u = mul(ctx, sign, z);
  const Variable error = neg(ctx, log(ctx, sigmoid(ctx, neg(ctx, u))));  // softplus(u)
  const Variable power = primitive::power(ctx, sigmoid(ctx, u), options.gamma);
  return scaled_sum(ctx, mul(ctx, weight, mul(ctx, power, error)), scale);
}

Variable box_loss(Context& ctx, const Variable& deltas, const AnchorTargets& targets,
                  const Tensor& scale) {
  box_inputs(deltas, targets, scale);
  const Variable d = upcast(ctx, deltas);
  const Variable counts = of_labels(
      d, targets, [](std::int64_t label, std::int64_t) { return label >= 0 ? 1.0 : 0.0; });
  const Variable wanted =
      narrow(ctx, Variable(targets.deltas), 1, targets.first, targets.first + deltas.dim(1));
  return scaled_sum(ctx, mul(ctx, counts, abs(ctx, sub(ctx, d, wanted))), scale);
}

}  // namespace reference
}  // namespace dtn::ops
