#include "tasks/multilabel/meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/fields.h"
#include "dtn/dist/communicator.h"
#include "dtn/tasks/multilabel.h"

namespace dtn {
namespace {

// Returns the rows of all ranks in rank order. `counts`: the rows of each rank; `width`: values of
// a row.
template <class T>
std::vector<T> of_all_ranks(const std::vector<T>& own, std::int64_t width, const Tensor& counts,
                            Communicator& ranks) {
  const std::int64_t most = std::ranges::max(counts.values<std::int64_t>());
  Tensor padded = Tensor::zeros({most * width}, DTypeOf<T>::value);
  std::ranges::copy(own, padded.data<T>());
  const Tensor all = ranks.all_gather(padded);
  std::vector<T> rows;
  for (int r = 0; r < ranks.size(); ++r) {
    const std::int64_t values = counts.data<std::int64_t>()[r] * width;
    const T* from = all.data<T>() + r * most * width;
    rows.insert(rows.end(), from, from + values);
  }
  return rows;
}

// Returns the rows in the given order.
template <class T>
std::vector<T> arranged(const std::vector<T>& rows, std::size_t width,
                        const std::vector<std::size_t>& order) {
  std::vector<T> result;
  result.reserve(rows.size());
  for (const std::size_t i : order) {
    const std::span<const T> row = std::span(rows).subspan(i * width, width);
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

}  // namespace

MultilabelMeter::MultilabelMeter(std::int64_t classes, std::optional<double> threshold)
    : classes_(classes), threshold_(threshold) {}

void MultilabelMeter::add(const Fields& batch, const Fields& outputs) {
  const Tensor &logits = outputs.at("logits"), &labels = batch.at("labels");
  DTN_CHECK(logits.dim(1) == classes_ && labels.shape() == logits.shape(), "labels ",
            to_string(labels.shape()), " for logits ", to_string(logits.shape()));
  std::ranges::copy(logits.values<float>(), std::back_inserter(logits_));
  for (const float label : labels.values<float>()) labels_.push_back(label == 1);
  count_ += logits.dim(0);
  if (const Tensor* index = batch.find("index")) {
    std::ranges::copy(index->values<std::int64_t>(), std::back_inserter(indices_));
  }
}

void MultilabelMeter::merge(Communicator& ranks) {
  if (ranks.is_single()) return;
  const Tensor counts =
      ranks.all_gather(Tensor::full({1}, DType::kInt64, static_cast<double>(count_)));
  indices_ = of_all_ranks(indices_, 1, counts, ranks);
  logits_ = of_all_ranks(logits_, classes_, counts, ranks);
  labels_ = of_all_ranks(labels_, classes_, counts, ranks);
  count_ = std::ssize(indices_);
  std::vector<std::size_t> order(indices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return indices_[i]; });
  const auto width = static_cast<std::size_t>(classes_);
  indices_ = arranged(indices_, 1, order);
  logits_ = arranged(logits_, width, order);
  labels_ = arranged(labels_, width, order);
}

LabelledLogits MultilabelMeter::samples() const { return {count_, classes_, logits_, labels_}; }

MultilabelFigures MultilabelMeter::figures() const {
  const LabelledLogits all = samples();
  const double threshold =
      threshold_ ? *threshold_ : best_threshold(all).value_or(Multilabel::kUsualThreshold);
  return label_figures(all, threshold);
}

Metrics MultilabelMeter::result() const {
  const MultilabelFigures f = figures();
  return {.values = {{"map", f.map},
                     {"f1_micro", f.f1_micro},
                     {"f1_macro", f.f1_macro},
                     {"threshold", f.threshold},
                     {"loss", f.loss}},
          .primary = "map",
          .higher_is_better = true,
          .text = format("mAP %.4f  micro F1 %.4f  macro F1 %.4f  threshold %.4f  loss %.4f", f.map,
                         f.f1_micro, f.f1_macro, f.threshold, f.loss)};
}

}  // namespace dtn
