#include "train/early_stop.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {

EarlyStop::EarlyStop(const ExperimentConfig& config, const TaskSchema& task, bool evaluates,
                     RunProgress& progress)
    : stop_(config.train.early_stop), progress_(progress) {
  if (!stop_.patience) return;
  if (!evaluates) {
    throw ConfigError(
        "train.early_stop.patience counts evaluations, but the run has no validation split; set "
        "data.val, or unset it");
  }
  DTN_CHECK(!task.figures.empty(), "the task ", task.name, " has no figures");
  figure_ = task.figures.front();
  if (!stop_.metric) return;
  const auto named = std::ranges::find(task.figures, *stop_.metric, &FigureSchema::name);
  DTN_CHECK(named != task.figures.end(), "the task ", task.name, " has no figure ", *stop_.metric);
  figure_ = *named;
}

void EarlyStop::take(const Metrics& metrics) {
  if (!stop_.patience) return;
  const double value = metrics.at(figure_.name), best = progress_.stop_best;
  const bool is_better =
      std::isfinite(value) &&
      (std::isnan(best) || (figure_.higher_is_better ? value > best : value < best));
  progress_.stale_evaluations = is_better ? 0 : progress_.stale_evaluations + 1;
  if (is_better) progress_.stop_best = value;
}

bool EarlyStop::is_over() const {
  return stop_.patience && progress_.stale_evaluations >= *stop_.patience;
}

std::string EarlyStop::reason() const {
  return cat("no better ", figure_.title, " in the last ",
             counted(progress_.stale_evaluations, "evaluations"),
             " (train.early_stop); the best was ",
             format(figure_.percent ? "%.2f %%" : "%.4f", progress_.stop_best));
}

}  // namespace dtn
