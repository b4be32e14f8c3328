#include "train/validation.h"

#include "train/stop_signal.h"

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

std::optional<bool> Validation::run() {
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
  const Metrics& judged =
      ema && run_.config.train.best == BestBy::kEma ? ema->metrics : raw->metrics;
  const double value = judged.primary_value();
  const bool improved = progress.best_step < 0 || judged.better(value, progress.best);
  if (improved) {
    progress.best = value;
    progress.best_step = progress.step;
  }
  return improved;
}

void Validation::repeat() {
  last_ = evaluate_weights(false).value();
  last_of_average_ = evaluate_average(false);
}

}  // namespace dtn
