#include "dtn/ops/loss.h"

#include "dtn/ops/gather.h"
#include "dtn/ops/primitive.h"
#include "kernels/loss/binary_cross_entropy.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/weighted_cross_entropy.h"
#include "kernels/pointwise/pointwise.h"
#include "ops/host_constant.h"
#include "ops/loss/log_softmax.h"

namespace dtn::ops {
namespace {

void check_labels(const Tensor& labels, std::int64_t rows, std::int64_t classes) {
  DTN_CHECK(labels.numel() == rows, "got ", labels.numel(), " labels for ", rows,
            " rows of logits");
  if (labels.device() != kCpu) return;  // the kernel returns NaN for an invalid label
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t label = labels.data<std::int64_t>()[i];
    DTN_CHECK(0 <= label && label < classes, "label ", label, " of sample ", i, " is outside [0, ",
              classes, ")");
  }
}

void check_targets(const Tensor& logits, const Targets& targets) {
  std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  if (!targets.labels.defined()) {
    DTN_CHECK(targets.soft.defined() && targets.soft.shape() == logits.shape(),
              "soft targets must have the shape of the logits, ", to_string(logits.shape()));
    return;
  }
  check_labels(targets.labels, rows, classes);
  if (!targets.partner_labels.defined() && !targets.label_share.defined()) return;
  DTN_CHECK(
      targets.partner_labels.defined() && targets.label_share.defined() &&
          targets.label_share.numel() == rows && targets.label_share.dtype() == DType::kFloat32,
      "partner labels come with the share of each row's own label, ", rows, " values of float32");
  check_labels(targets.partner_labels, rows, classes);
}

ClassTargets kernel_targets(const Targets& t) {
  if (!t.labels.defined()) return {.targets = t.soft.raw()};
  return {.labels = static_cast<const std::int64_t*>(t.labels.raw()),
          .smoothing = t.smoothing,
          .partner_labels = static_cast<const std::int64_t*>(t.partner_labels.raw()),
          .label_share = static_cast<const float*>(t.label_share.raw())};
}

}  // namespace

LossResult cross_entropy(Context& ctx, const Variable& logits, const Targets& targets) {
  check_targets(logits.value(), targets);
  std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  DType acc = accumulator_of(logits.dtype());
  Device device = logits.device();
  Tensor loss = Tensor::empty({rows}, acc, device), lse = Tensor::empty({rows}, acc, device);
  run_on(device, CrossEntropyForward{kernel_targets(targets), logits.dtype(), rows, classes,
                                     logits.value().raw(), loss.raw(), lse.raw()});
  Tensor mean = Tensor::empty({1}, acc, device);
  double share = 1 / static_cast<double>(rows);
  run_on(device, Mean{acc, rows, loss.raw(), mean.raw(), share});
  Variable result = ctx.record(
      "cross_entropy", mean, {&logits},
      [=, logits = logits.value(), dlogits = logits.sink()](const Tensor& dy) {
        Tensor grad = Tensor::empty_like(logits);
        run_on(device, CrossEntropyBackward{kernel_targets(targets), logits.dtype(), rows, classes,
                                            logits.raw(), lse.raw(), share, grad.raw(), dy.raw()});
        dlogits->accumulate(std::move(grad));
      });
  return {result, loss};
}

LossResult weighted_cross_entropy(Context& ctx, const Variable& logits, const Targets& targets,
                                  const ClassWeighting& weighting) {
  check_targets(logits.value(), targets);
  const std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  const DType acc = accumulator_of(logits.dtype());
  const Device device = logits.device();
  const Tensor weights = weighting.weights;
  DTN_CHECK(!weights.defined() || (weights.numel() == classes && weights.dtype() == acc &&
                                   weights.device() == device),
            "class weights must be ", classes, " values of ", name_of(acc), " beside the logits");
  DTN_CHECK(weighting.gamma >= 0, "the focal exponent is ", weighting.gamma, ", below 0");
  const WeightedCrossEntropyInputs inputs{
      kernel_targets(targets), logits.dtype(), rows,           classes,
      logits.value().raw(),    weights.raw(),  weighting.gamma};
  Tensor loss = Tensor::empty({rows}, acc, device), lse = Tensor::empty({rows}, acc, device);
  run_on(device, WeightedCrossEntropyForward{inputs, loss.raw(), lse.raw()});
  Tensor mean = Tensor::empty({1}, acc, device);
  const double share = 1 / static_cast<double>(rows);
  run_on(device, Mean{acc, rows, loss.raw(), mean.raw(), share});
  Variable result = ctx.record(
      "weighted_cross_entropy", mean, {&logits},
      // Keeps the tensors alive that `inputs` points to.
      [=, logits = logits.value(), dlogits = logits.sink(), kept = targets,
       of_classes = weights](const Tensor& dy) {
        Tensor grad = Tensor::empty_like(logits);
        run_on(device,
               WeightedCrossEntropyBackward{inputs, lse.raw(), share, grad.raw(), dy.raw()});
        dlogits->accumulate(std::move(grad));
      });
  return {result, loss};
}

Tensor sum_class_weights(const Tensor& weights, const Tensor& labels) {
  Context unrecorded;
  const Variable table(weights.reshape({weights.numel(), 1}));
  return primitive::sum(unrecorded, take_rows(unrecorded, table, labels), {0, 1})
      .value()
      .reshape({1});
}

LossResult binary_cross_entropy(Context& ctx, const Variable& logits, const Targets& targets,
                                const BinaryOptions& options) {
  check_targets(logits.value(), targets);
  const std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  const DType acc = accumulator_of(logits.dtype());
  const Device device = logits.device();
  const BinaryTargets against{kernel_targets(targets), options.threshold.has_value(),
                              options.threshold.value_or(0)};
  const double of_class = options.sum ? 1 : 1 / static_cast<double>(classes);
  Tensor loss = Tensor::empty({rows}, acc, device), mean = Tensor::empty({1}, acc, device);
  run_on(device, BinaryCrossEntropyForward{logits.dtype(), rows, classes, logits.value().raw(),
                                           against, of_class, loss.raw()});
  const double share = 1 / static_cast<double>(rows);
  run_on(device, Mean{acc, rows, loss.raw(), mean.raw(), share});
  const Variable result = ctx.record(
      "binary_cross_entropy", mean, {&logits},
      // Keeps the targets alive, because `against` points to them.
      [=, logits = logits.value(), dlogits = logits.sink(), kept = targets](const Tensor& dy) {
        Tensor grad = Tensor::empty_like(logits);
        run_on(device, BinaryCrossEntropyBackward{logits.dtype(), rows, classes, logits.raw(),
                                                  against, of_class * share, grad.raw(), dy.raw()});
        dlogits->accumulate(std::move(grad));
      });
  return {result, loss};
}

namespace reference {
using namespace primitive;

namespace {

// Returns the targets of all classes, [rows, classes].
Tensor dense_targets(const Targets& targets, std::int64_t rows, std::int64_t classes, DType dtype,
                     Device device) {
  if (!targets.labels.defined()) return cast_tensor(targets.soft, dtype);
  const Tensor labels = targets.labels.to(kCpu), partners = targets.partner_labels.to(kCpu);
  const Tensor shares = targets.label_share.to(kCpu);
  return host_constant({rows, classes}, dtype, device, [&](std::int64_t i) {
    const std::int64_t row = i / classes, column = i % classes;
    const double share = shares.defined() ? shares.data<float>()[row] : 1;
    double target = targets.smoothing / static_cast<double>(classes);
    auto add_up = [&](const Tensor& of, double part) {
      if (of.data<std::int64_t>()[row] == column) target += part * (1 - targets.smoothing);
    };
    add_up(labels, share);
    if (partners.defined()) add_up(partners, 1 - share);
    return target;
  });
}

}  // namespace

Variable weighted_cross_entropy(Context& ctx, const Variable& logits, const Targets& targets,
                                const ClassWeighting& weighting) {
  const Variable wide = upcast(ctx, logits);
  const std::int64_t rows = wide.dim(0), classes = wide.dim(1);
  Variable weights(dense_targets(targets, rows, classes, wide.dtype(), wide.device()));
  if (weighting.weights.defined()) {
    const Tensor each = cast_tensor(weighting.weights.reshape({1, classes}), wide.dtype());
    weights = mul(ctx, weights, Variable(each));
  }
  const Variable log_p = log_softmax(ctx, wide);
  if (weighting.gamma != 0) {
    const Variable wrong = affine(ctx, exp(ctx, log_p), -1, 1);
    weights = mul(ctx, weights, power(ctx, wrong, weighting.gamma));
  }
  const Variable per_sample = sum(ctx, mul(ctx, log_p, weights), 1);  // [B, 1]
  return reshape(ctx, neg(ctx, mean(ctx, per_sample, 0)), {1});
}

Variable binary_cross_entropy(Context& ctx, const Variable& logits, const Targets& targets,
                              const BinaryOptions& options) {
  const Variable z = upcast(ctx, logits);
  Variable t(dense_targets(targets, z.dim(0), z.dim(1), z.dtype(), z.device()));
  if (options.threshold) t = greater(t, constant(t, *options.threshold));
  const Variable rest = affine(ctx, t, -1, 1);
  const Variable yes = mul(ctx, t, log(ctx, sigmoid(ctx, z)));
  const Variable no = mul(ctx, rest, log(ctx, sigmoid(ctx, neg(ctx, z))));
  const Variable each = neg(ctx, add(ctx, yes, no));
  const Variable per_sample = options.sum ? sum(ctx, each, 1) : mean(ctx, each, 1);
  return reshape(ctx, mean(ctx, per_sample, 0), {1});
}

Variable cross_entropy(Context& ctx, const Variable& logits, const Targets& targets) {
  const Variable wide = upcast(ctx, logits);
  const Tensor t = dense_targets(targets, wide.dim(0), wide.dim(1), wide.dtype(), wide.device());
  const Variable log_p = log_softmax(ctx, wide);
  const Variable per_sample = sum(ctx, mul(ctx, log_p, Variable(t)), 1);  // [B, 1]
  return reshape(ctx, neg(ctx, mean(ctx, per_sample, 0)), {1});
}

}  // namespace reference
}  // namespace dtn::ops
