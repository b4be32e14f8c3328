#include "tasks/collapse.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"

namespace dtn {

std::optional<TaskWarning> collapse_warning(const DinoConfig& config, double entropy,
                                            bool settled) {
  const double most = std::log(static_cast<double>(config.out_dim));
  const std::string figures =
      format("their entropy is %.4g, %.3g %% of ln K = %.4g", entropy, 100 * entropy / most, most);
  if (entropy < kMinEntropyShare * most) {
    return TaskWarning{"one_output",
                       cat("the teacher's outputs have most of their weight on one of the ",
                           config.out_dim, " elements: ", figures,
                           ". If it is the same element for all images, nothing is learned. Raise "
                           "dino.teacher_temp (",
                           config.teacher_temp, "), lower dino.center_momentum (",
                           config.center_momentum, ") or lower optim.lr")};
  }
  if (settled && entropy > kMaxEntropyShare * most) {
    return TaskWarning{
        "equal_outputs",
        cat("all elements of the teacher's outputs are nearly equal: ", figures,
            ". Nothing is learned from them. Lower dino.teacher_temp (", config.teacher_temp,
            ") or optim.lr, or raise dino.teacher_momentum (", config.teacher_momentum,
            "); a small data set needs a smaller dino.out_dim (", config.out_dim, ")")};
  }
  return std::nullopt;
}

std::int64_t settled_from(const ExperimentConfig& config, const RunLength& run) {
  const auto frozen = static_cast<double>(config.dino.freeze_last_layer_epochs);
  const double epochs = std::max({config.schedule.warmup_epochs, frozen, 1.0});
  const auto steps =
      static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(run.steps_per_epoch)));
  return std::max(steps, config.schedule.warmup_steps.value_or(0));
}

bool is_settled(const ExperimentConfig& config, const RunLength& run, std::int64_t step) {
  const Period& every = config.train.log_every;
  const std::int64_t steps = every.epochs ? every.count * run.steps_per_epoch : every.count;
  if (steps == 0) return false;  // the line of the last step is about all steps
  const std::int64_t earlier_line = (step - 1) / steps * steps;
  return earlier_line >= settled_from(config, run);
}

}  // namespace dtn
