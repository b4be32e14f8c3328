#include "train/evaluator.h"

#include <algorithm>
#include <chrono>

#include "dtn/core/check.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/tokens.h"

namespace dtn {

void AccuracyMeter::add(const Tensor& logits, const Tensor& labels,
                        std::span<const std::int64_t> indices) {
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
    const auto row = static_cast<std::size_t>(r);
    const auto next = static_cast<std::int64_t>(losses_.size());
    losses_.push_back({indices.empty() ? next : indices[row], loss.per_sample.data<float>()[r]});
  }
}

void AccuracyMeter::merge(Communicator& ranks) {
  if (ranks.alone()) return;
  top1_ = ranks.sum(top1_);
  top5_ = ranks.sum(top5_);
  // Index and loss of each sample, behind their number.
  const Tensor own_count = Tensor::full({1}, DType::kInt64, static_cast<double>(losses_.size()));
  const Tensor counts = ranks.all_gather(own_count);
  const std::int64_t most = std::ranges::max(counts.values<std::int64_t>());
  Tensor own = Tensor::zeros({most, 2}, DType::kFloat64);
  double* to = own.data<double>();
  for (const Loss& loss : losses_) {
    *to++ = static_cast<double>(loss.index);
    *to++ = loss.value;
  }
  const Tensor all = ranks.all_gather(own);
  losses_.clear();
  for (int r = 0; r < ranks.size(); ++r) {
    const double* from = all.data<double>() + r * most * 2;
    for (std::int64_t i = 0; i < counts.data<std::int64_t>()[r]; ++i, from += 2) {
      losses_.push_back({static_cast<std::int64_t>(from[0]), static_cast<float>(from[1])});
    }
  }
  std::ranges::stable_sort(losses_, {}, &Loss::index);
}

EvalResult AccuracyMeter::result() const {
  EvalResult r;
  r.count = static_cast<std::int64_t>(losses_.size());
  if (losses_.empty()) return r;
  const auto n = static_cast<double>(r.count);
  double sum = 0;
  for (const Loss& loss : losses_) sum += loss.value;
  r.top1 = 100.0 * static_cast<double>(top1_) / n;
  r.top5 = 100.0 * static_cast<double>(top5_) / n;
  r.loss = sum / n;
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
  // A rank may have no rows of the last batch; it still takes part in the agreements.
  const std::int64_t batches = feeder.batches_per_epoch();
  for (std::int64_t i = 0; i < batches; ++i) {
    bool stop = options.stop && options.stop();
    if (options.ranks) stop = options.ranks->any(stop);
    if (stop) return std::nullopt;
    if (!feeder.next(batch)) continue;
    Tensor logits = predict(model, batch.fields.at("image"), options.dtype);
    if (options.classes.empty()) {
      meter.add(logits, batch.host.at("label"), batch.indices);
    } else {
      meter.add(logits_of(logits, options.classes),
                labels_among(batch.host.at("label"), options.classes), batch.indices);
    }
    done += batch.n;
    if (options.on_batch) options.on_batch(batch, logits, done);
  }
  if (options.ranks) meter.merge(*options.ranks);
  EvalResult result = meter.result();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace dtn
