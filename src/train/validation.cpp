#include "train/validation.h"

#include <algorithm>
#include <cmath>

#include "core/stop_signal.h"

namespace dtn {

std::optional<Evaluation> Validation::evaluate_weights(bool stoppable, Meter& meter) {
  EvalOptions options;
  options.meter = &meter;
  options.ranks = &ranks_;
  if (stoppable) options.stop = stop_requested;
  if (references_) {
    options.references = &references_->feeder();
    const std::int64_t all = references_->loader().samples_per_epoch();
    options.on_reference = [this, all](std::int64_t done) {
      recorder_.evaluation_progress(done, all);
    };
  }
  const std::int64_t total = split_->loader().samples_per_epoch();
  options.on_batch = [&](const DeviceBatch&, const Fields&, std::int64_t done) {
    recorder_.evaluation_progress(done, total);
  };
  return evaluate(learner_.task(), split_->feeder(), options);
}

Validation::Meters Validation::new_meters() const {
  const Task& task = learner_.task();
  return {task.meter(), learner_.average() ? task.meter() : nullptr};
}

std::optional<Evaluations> Validation::evaluate_all(bool stoppable, const Meters& meters) {
  std::optional<Evaluation> weights = evaluate_weights(stoppable, *meters.weights);
  if (!weights) return std::nullopt;
  MovingAverage* average = learner_.average();
  if (!average) return Evaluations{*weights, std::nullopt};
  average->swap();
  std::optional<Evaluation> of_average = evaluate_weights(stoppable, *meters.average);
  average->swap();
  if (!of_average) return std::nullopt;
  return Evaluations{*weights, of_average};
}

std::optional<bool> Validation::finite_loss_in(const Metrics& metrics) {
  const auto loss =
      std::ranges::find(metrics.values, "loss", [](const auto& figure) { return figure.first; });
  if (loss == metrics.values.end()) return std::nullopt;
  return std::isfinite(loss->second);
}

bool Validation::is_best(const Evaluation& judged) const {
  const double value = judged.metrics.primary_value();
  if (!std::isfinite(value) || finite_loss_in(judged.metrics) == false) return false;
  if (loss_is_finite() == false) return false;
  // In checkpoints of earlier versions the best may be NaN.
  return progress_.best_step < 0 || !std::isfinite(progress_.best) ||
         judged.metrics.better(value, progress_.best);
}

std::optional<bool> Validation::run(bool may_be_best) {
  const Meters meters = new_meters();
  const std::optional<Evaluations> results = evaluate_all(true, meters);
  if (!results) return std::nullopt;
  last_ = *results;
  const bool improved = may_be_best && is_best(judged());
  recorder_.evaluations(last_, judged(), improved);
  recorder_.neighbors(*meters.weights, split_->source(),
                      references_ ? &references_->source() : nullptr);
  const std::int64_t step = progress_.evaluated_step = progress_.step;
  if (learner_.task().finds_threshold()) {
    progress_.threshold = last_.weights.metrics.at("threshold");
    if (last_.average) progress_.ema_threshold = last_.average->metrics.at("threshold");
  }
  if (loss_is_finite() == true) progress_.finite_step = step;
  if (loss_is_finite() == false) {
    recorder_.warn(cat("step ", step, ": the loss of the evaluation is not finite"));
  }
  const bool by_average = last_.average && best_ == BestBy::kEma;
  if (!improved) return false;
  progress_.best = judged().metrics.primary_value();
  progress_.best_step = step;
  recorder_.detections(by_average ? *meters.average : *meters.weights, split_->source());
  return true;
}

}  // namespace dtn
