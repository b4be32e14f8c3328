#include "train/validation.h"

#include <algorithm>
#include <cmath>

#include "core/stop_signal.h"

namespace dtn {

std::optional<Evaluation> Validation::evaluate_weights(bool stoppable) {
  EvalOptions options;
  options.ranks = &run_.ranks;
  if (stoppable) options.stop = stop_requested;
  const std::int64_t total = run_.val->loader().samples_per_epoch();
  options.on_batch = [&](const DeviceBatch&, const Fields&, std::int64_t done) {
    run_.log->evaluation_progress(done, total);
  };
  return evaluate(*run_.task, run_.val->feeder(), options);
}

std::optional<Evaluation> Validation::evaluate_average(bool stoppable) {
  MovingAverage* average = run_.learner.average();
  if (!average) return std::nullopt;
  average->swap();
  std::optional<Evaluation> result = evaluate_weights(stoppable);
  average->swap();
  return result;
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
  const RunProgress& progress = run_.progress;
  // In checkpoints of earlier versions the best may be NaN.
  return progress.best_step < 0 || !std::isfinite(progress.best) ||
         judged.metrics.better(value, progress.best);
}

std::optional<bool> Validation::run(bool may_be_best) {
  const std::optional<Evaluation> raw = evaluate_weights(true);
  if (!raw) return std::nullopt;
  const std::optional<Evaluation> ema = evaluate_average(true);
  if (run_.learner.average() && !ema) return std::nullopt;
  RunProgress& progress = run_.progress;
  run_.log->evaluation(progress.step, "val", *raw);
  if (ema) run_.log->evaluation(progress.step, "val_ema", *ema);
  progress.evaluated_step = progress.step;
  last_ = *raw;
  last_of_average_ = ema;
  if (loss_is_finite() == true) progress.finite_step = progress.step;
  if (loss_is_finite() == false) {
    run_.log->warn(cat("step ", progress.step, ": the loss of the evaluation is not finite"));
  }
  const Evaluation& judged = ema && run_.config.train.best == BestBy::kEma ? *ema : *raw;
  if (!may_be_best || !is_best(judged)) return false;
  progress.best = judged.metrics.primary_value();
  progress.best_step = progress.step;
  return true;
}

void Validation::repeat() {
  last_ = evaluate_weights(false).value();
  last_of_average_ = evaluate_average(false);
}

}  // namespace dtn
