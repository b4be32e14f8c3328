#include "dtn/train/evaluator.h"

#include <algorithm>
#include <chrono>

#include "dtn/core/check.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/tokens.h"

namespace dtn {

void AccuracyMeter::add(const Tensor& logits, const Tensor& labels) {
  std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  Context ctx;
  ops::LossResult loss = ops::cross_entropy(ctx, Variable(logits), {labels, {}, 0});
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* z = logits.data<float>() + r * classes;
    std::int64_t label = labels.data<std::int64_t>()[r];
    std::int64_t rank = 0;
    for (std::int64_t k = 0; k < classes; ++k) {
      bool below = k > label ? z[k] <= z[label] : z[k] < z[label];
      rank += k != label && !below;
    }
    bool finite = z[label] == z[label];
    top1_ += finite && rank < 1;
    top5_ += finite && rank < 5;
    loss_ += loss.per_sample.data<float>()[r];
  }
  count_ += rows;
}

EvalResult AccuracyMeter::result() const {
  EvalResult r;
  r.count = count_;
  if (!count_) return r;
  auto n = static_cast<double>(count_);
  r.top1 = 100.0 * static_cast<double>(top1_) / n;
  r.top5 = 100.0 * static_cast<double>(top5_) / n;
  r.loss = loss_ / n;
  return r;
}

Tensor predict(VisionTransformer& model, const Tensor& images, DType dtype) {
  Context ctx;
  if (dtype == DType::kBFloat16) model.parameters().enable_bfloat16();
  Variable logits = model.forward(ctx, images.to(model.parameters().device()), dtype);
  return ops::cast(ctx, logits, DType::kFloat32).value().to(kCpu);
}

Tensor logits_of(const Tensor& logits, std::span<const std::int64_t> classes) {
  const std::int64_t rows = logits.dim(0), all = logits.dim(1);
  Tensor chosen = Tensor::empty({rows, static_cast<std::int64_t>(classes.size())}, DType::kFloat32);
  float* out = chosen.data<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = logits.data<float>() + r * all;
    for (std::int64_t k : classes) *out++ = row[k];
  }
  return chosen;
}

Tensor labels_among(const Tensor& labels, std::span<const std::int64_t> classes) {
  Tensor places = Tensor::empty(labels.shape(), DType::kInt64);
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const std::int64_t label = labels.data<std::int64_t>()[i];
    const auto place = std::ranges::lower_bound(classes, label);
    DTN_CHECK(place != classes.end() && *place == label, "label ", label,
              " is none of the classes to choose from");
    places.data<std::int64_t>()[i] = place - classes.begin();
  }
  return places;
}

std::optional<EvalResult> evaluate(VisionTransformer& model, BatchFeeder& feeder,
                                   const EvalOptions& options) {
  auto start = std::chrono::steady_clock::now();
  AccuracyMeter meter;
  DeviceBatch batch;
  std::int64_t done = 0;
  feeder.start(0);
  for (;;) {
    if (options.stop && options.stop()) return std::nullopt;
    if (!feeder.next(batch)) break;
    Tensor logits = predict(model, batch.images, options.dtype);
    if (options.classes.empty()) {
      meter.add(logits, batch.host_labels);
    } else {
      meter.add(logits_of(logits, options.classes),
                labels_among(batch.host_labels, options.classes));
    }
    done += batch.n;
    if (options.on_batch) options.on_batch(batch, logits, done);
  }
  EvalResult result = meter.result();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace dtn
