#include "tasks/diffusion/process.h"

#include <cmath>

#include "dtn/core/check.h"

namespace dtn {

DiffusionProcess::DiffusionProcess(const DiffusionConfig& config) {
  DTN_CHECK(config.steps >= 2, "a diffusion process of ", config.steps, " steps");
  const double scale = 1000 / static_cast<double>(config.steps);
  const double first = scale * config.beta_start, last = scale * config.beta_end;
  double alpha_bar = 1;
  for (std::int64_t t = 0; t < config.steps; ++t) {
    const double share = static_cast<double>(t) / static_cast<double>(config.steps - 1);
    const double beta = first + (last - first) * share;
    alpha_bar *= 1 - beta;
    Step step{};
    step.time = t;
    step.beta = beta;
    step.alpha_bar = alpha_bar;
    steps_.push_back(step);
  }
  complete();
}

DiffusionProcess DiffusionProcess::respaced(std::span<const std::int64_t> kept) const {
  DiffusionProcess process;
  double before = 1;
  std::int64_t previous = -1;
  for (const std::int64_t position : kept) {
    DTN_CHECK(previous < position && position < size(), "respaced: step ", position,
              " does not follow ", previous, " among ", size(), " steps");
    previous = position;
    Step step = at(position);
    step.beta = 1 - step.alpha_bar / before;
    before = step.alpha_bar;
    process.steps_.push_back(step);
  }
  process.complete();
  return process;
}

void DiffusionProcess::complete() {
  double before = 1;
  for (Step& step : steps_) {
    const double noise = 1 - step.alpha_bar;
    step.alpha_bar_before = before;
    step.posterior_variance = step.beta * (1 - before) / noise;
    step.mean_of_start = step.beta * std::sqrt(before) / noise;
    step.mean_of_noisy = (1 - before) * std::sqrt(1 - step.beta) / noise;
    before = step.alpha_bar;
  }
  for (Step& step : steps_) step.posterior_log_variance = std::log(step.posterior_variance);
  // The posterior variance of the first step is 0.
  steps_.front().posterior_log_variance =
      steps_.size() > 1 ? steps_[1].posterior_log_variance : std::log(steps_.front().beta);
}

}  // namespace dtn
