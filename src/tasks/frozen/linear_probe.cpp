#include "tasks/frozen/linear_probe.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtn/nn/initializers.h"
#include "dtn/ops/loss.h"
#include "kernels/optimizer/optimizer.h"

namespace dtn {
namespace {

OptimConfig probe_optimizer() {
  OptimConfig config;
  config.name = "sgd";
  config.momentum = 0.9;
  config.weight_decay = 0;
  return config;
}

}  // namespace

LinearProbe::LinearProbe(std::int64_t width, std::int64_t classes, const ProbeOptions& options)
    : options_(options),
      linear_(Scope(store_, "linear"), width, classes, {.init = normal_with(0.01)}),
      features_(Tensor::empty({options.batch, width}, DType::kFloat32)),
      labels_(Tensor::empty({options.batch}, DType::kInt64)) {
  store_.allocate();
  store_.initialize(options.seed);
  optimizer_ = make_optimizer(probe_optimizer(), store_);
}

double LinearProbe::rate(int epoch) const {
  const double peak = options_.lr * static_cast<double>(options_.batch) / 256;
  return peak * (1 + std::cos(std::numbers::pi * epoch / options_.epochs)) / 2;
}

void LinearProbe::add(const Tensor& features, const Tensor& labels) {
  const std::int64_t count = features.dim(0);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t n = std::min(count - done, options_.batch - waiting_);
    features_.slice(waiting_, waiting_ + n).copy_from(features.slice(done, done + n));
    labels_.slice(waiting_, waiting_ + n).copy_from(labels.slice(done, done + n));
    done += n;
    waiting_ += n;
    if (waiting_ == options_.batch) flush();
  }
}

void LinearProbe::flush() {
  if (waiting_ > 0) step(features_.slice(0, waiting_), labels_.slice(0, waiting_));
  waiting_ = 0;
}

void LinearProbe::step(const Tensor& features, const Tensor& labels) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  store_.zero_gradients();
  const Variable logits = linear_.forward(ctx, Variable(features));
  tape.backward(ops::cross_entropy(ctx, logits, {labels, {}, 0}).mean);
  const StepInputs inputs{
      .lr = rate_, .weight_decay = 0, .step = static_cast<std::uint32_t>(steps_)};
  UpdateState decision;
  decision.finite = true;
  decision.grad_scale = 1;
  decision.updates = ++steps_;
  optimizer_->step(&inputs, &decision);
}

Tensor LinearProbe::logits(const Tensor& features) const {
  Context ctx;
  return linear_.forward(ctx, Variable(features)).value();
}

}  // namespace dtn
