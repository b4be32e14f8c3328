#include "dtn/ops/loss.h"

#include "dtn/ops/elementary.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/pointwise/pointwise.h"
#include "ops/dispatch.h"

namespace dtn::ops {
namespace {

void check_labels(const Tensor& labels, std::int64_t rows, std::int64_t classes) {
  DTN_CHECK(labels.numel() == rows, "got ", labels.numel(), " labels for ", rows,
            " rows of logits");
  if (labels.device() != kCpu) return;  // the kernel answers a wrong label with NaN
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

template <class Args>
void set_targets(Args& args, const Targets& targets) {
  if (targets.labels.defined()) {
    args.labels = static_cast<const std::int64_t*>(targets.labels.raw());
    args.smoothing = targets.smoothing;
    if (!targets.partner_labels.defined()) return;
    args.partner_labels = static_cast<const std::int64_t*>(targets.partner_labels.raw());
    args.label_share = static_cast<const float*>(targets.label_share.raw());
  } else {
    args.targets = targets.soft.raw();
  }
}

}  // namespace

LossResult cross_entropy(Context& ctx, const Variable& logits, const Targets& targets) {
  check_targets(logits.value(), targets);
  std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  DType acc = accumulator_of(logits.dtype());
  Device device = logits.device();
  Tensor loss = Tensor::empty({rows}, acc, device), lse = Tensor::empty({rows}, acc, device);
  CrossEntropyForward args{};
  args.dtype = logits.dtype();
  args.rows = rows;
  args.classes = classes;
  args.logits = logits.value().raw();
  args.loss = loss.raw();
  args.lse = lse.raw();
  set_targets(args, targets);
  run_on(device, args);
  Tensor mean = Tensor::empty({1}, acc, device);
  double share = 1 / static_cast<double>(rows);
  run_on(device, Mean{acc, rows, loss.raw(), mean.raw(), share});
  Variable result =
      ctx.record("cross_entropy", mean, {&logits},
                 [=, logits = logits.value(), dlogits = logits.sink()](const Tensor& dy) {
                   Tensor grad = Tensor::empty_like(logits);
                   CrossEntropyBackward back{};
                   back.dtype = logits.dtype();
                   back.rows = rows;
                   back.classes = classes;
                   back.logits = logits.raw();
                   back.lse = lse.raw();
                   back.scale = share;
                   back.upstream = dy.raw();
                   back.dlogits = grad.raw();
                   set_targets(back, targets);
                   run_on(device, back);
                   dlogits->accumulate(std::move(grad));
                 });
  return {result, loss};
}

namespace reference {
using namespace elementary;

Variable cross_entropy(Context& ctx, const Variable& logits, const Targets& targets) {
  std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  Tensor t = targets.soft;
  if (targets.labels.defined()) {
    t = Tensor::full({rows, classes}, logits.dtype(),
                     targets.smoothing / static_cast<double>(classes));
    dispatch_real(logits.dtype(), [&](auto zero) {
      auto add = [&](const Tensor& labels, std::int64_t row, double share) {
        t.data<decltype(zero)>()[row * classes + labels.data<std::int64_t>()[row]] +=
            static_cast<decltype(zero)>(share * (1 - targets.smoothing));
      };
      for (std::int64_t i = 0; i < rows; ++i) {
        double share = targets.label_share.defined() ? targets.label_share.data<float>()[i] : 1;
        add(targets.labels, i, share);
        if (targets.partner_labels.defined()) add(targets.partner_labels, i, 1 - share);
      }
    });
  }
  Variable log_p = log(ctx, softmax(ctx, logits));
  Variable per_sample = sum(ctx, mul(ctx, log_p, Variable(t)), 1);  // [B, 1]
  return reshape(ctx, affine(ctx, mean(ctx, per_sample, 0), -1), {1});
}

}  // namespace reference
}  // namespace dtn::ops
