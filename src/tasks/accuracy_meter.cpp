#include <algorithm>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/dist/communicator.h"
#include "dtn/ops/loss.h"
#include "dtn/tasks/classify.h"

namespace dtn {

AccuracyMeter::AccuracyMeter(std::vector<std::int64_t> classes, std::vector<LabelRange> sets)
    : classes_(std::move(classes)), sets_(std::move(sets)), set_hits_(sets_.size()) {}

void AccuracyMeter::add(const Fields& batch, const Fields& outputs) {
  Tensor logits = outputs.at("logits"), labels = batch.at("label");
  if (!classes_.empty()) {
    logits = logits_of(logits, classes_);
    labels = labels_among(labels, classes_);
  }
  const std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  const Tensor* index = batch.find("index");
  Context ctx;
  const ops::LossResult loss = ops::cross_entropy(ctx, Variable(logits), {labels, {}, 0});
  for (std::int64_t r = 0; r < rows; ++r) {
    count_hits(logits.data<float>() + r * classes, classes, labels.data<std::int64_t>()[r]);
    const auto next = static_cast<std::int64_t>(losses_.size());
    losses_.push_back(
        {index ? index->data<std::int64_t>()[r] : next, loss.per_sample.data<float>()[r]});
  }
}

void AccuracyMeter::count_hits(const float* logits, std::int64_t classes, std::int64_t label) {
  std::int64_t rank = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    const bool below = k > label ? logits[k] <= logits[label] : logits[k] < logits[label];
    rank += k != label && !below;
  }
  const bool is_number = logits[label] == logits[label];
  top1_ += is_number && rank < 1;
  top5_ += is_number && rank < 5;
  count_in_set(label, is_number && rank < 1);
}

void AccuracyMeter::count_in_set(std::int64_t label, bool hit) {
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    if (label < sets_[s].first || label >= sets_[s].first + sets_[s].count) continue;
    ++set_hits_[s].samples;
    set_hits_[s].top1 += hit;
  }
}

void AccuracyMeter::merge(Communicator& ranks) {
  if (ranks.is_single()) return;
  top1_ = ranks.sum(top1_);
  top5_ = ranks.sum(top5_);
  for (SetHits& hits : set_hits_) {
    hits.samples = ranks.sum(hits.samples);
    hits.top1 = ranks.sum(hits.top1);
  }
  // Gathers the number of samples of each rank, then the index and loss of each sample.
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

Metrics AccuracyMeter::result() const {
  const auto n = static_cast<double>(std::max<std::size_t>(losses_.size(), 1));
  double sum = 0;
  for (const Loss& loss : losses_) sum += loss.value;
  const double top1 = 100.0 * static_cast<double>(top1_) / n;
  const double top5 = 100.0 * static_cast<double>(top5_) / n;
  Metrics metrics{.values = {{"top1", top1}, {"top5", top5}, {"loss", sum / n}},
                  .primary = "top1",
                  .higher_is_better = true,
                  .text = format("top-1 %.2f %%  top-5 %.2f %%  loss %.4f", top1, top5, sum / n)};
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    const SetHits& hits = set_hits_[s];
    const double share = 100.0 * static_cast<double>(hits.top1) /
                         static_cast<double>(std::max<std::int64_t>(hits.samples, 1));
    metrics.values.push_back({cat("top1_", sets_[s].name), share});
    if (sets_.size() > 1) metrics.text += cat("  ", sets_[s].name, format(" %.2f %%", share));
  }
  return metrics;
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
              " is not one of the evaluated classes");
    places.data<std::int64_t>()[i] = place - classes.begin();
  }
  return places;
}

}  // namespace dtn
