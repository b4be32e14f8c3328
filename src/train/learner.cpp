#include "dtn/train/learner.h"

#include <cmath>

#include "dtn/ops/loss.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

DType compute_dtype_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32: return DType::kFloat32;
    case Precision::kBFloat16: return DType::kBFloat16;
    case Precision::kTf32: break;
  }
  throw ConfigError("train.precision: tf32 needs a CUDA device; use fp32 or bf16");
}

}  // namespace

Learner::Learner(const ExperimentConfig& config)
    : train_(config.train),
      clip_(config.optim.clip_grad_norm),
      seed_(config.seed),
      compute_(compute_dtype_of(config.train.precision)),
      model_(std::make_unique<VisionTransformer>(config.model, config.seed)),
      optimizer_(config.optim, model_->parameters()) {
  if (compute_ == DType::kBFloat16) model_->parameters().enable_bfloat16();
  if (train_.ema) average_.emplace(model_->parameters(), *train_.ema);
}

double Learner::accumulate(const Batch& batch, std::int64_t first, std::int64_t count,
                           std::int64_t step) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.training = true;
  ctx.seed = seed_;
  ctx.step = static_cast<std::uint32_t>(step);
  ctx.first_sample = static_cast<std::uint64_t>(first);
  Variable logits = model_->forward(ctx, batch.images.slice(first, first + count), compute_,
                                    train_.checkpoint_blocks);
  ops::Targets targets{batch.labels.slice(first, first + count), {}, train_.label_smoothing};
  ops::LossResult loss = ops::cross_entropy(ctx, ops::cast(ctx, logits, DType::kFloat32), targets);
  tape.backward(loss.mean);
  return loss.mean.value().data<float>()[0];
}

StepReport Learner::step(const Batch& batch, std::int64_t step, double lr) {
  std::int64_t micro =
      std::min<std::int64_t>(train_.micro_batch.value_or(train_.batch_size), batch.n);
  DTN_CHECK(batch.n % micro == 0, "a batch of ", batch.n, " does not divide into micro-batches of ",
            micro);
  std::int64_t parts = batch.n / micro;
  StepReport report;
  model_->parameters().zero_gradients();
  for (std::int64_t i = 0; i < parts; ++i) {
    report.loss += accumulate(batch, i * micro, micro, step) / static_cast<double>(parts);
  }
  double scale = 1.0 / static_cast<double>(parts);
  report.grad_norm = gradient_norm(model_->parameters()) * scale;
  report.finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm);
  if (!report.finite) return report;
  if (clip_ && report.grad_norm > *clip_) scale *= *clip_ / (report.grad_norm + 1e-6);
  optimizer_.step(lr, scale);
  if (average_) average_->update();
  return report;
}

}  // namespace dtn
