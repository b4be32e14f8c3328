#include "tasks/view_checks.h"

#include "dtn/core/check.h"

namespace dtn {

std::optional<ConfigProblem> one_view_problem(const ExperimentConfig& config) {
  if (!config.augment.makes_views()) return {};
  return ConfigProblem{
      {"augment.preset", "task"},
      cat("augment.preset makes several views of each image, but the task ", config.task,
          " takes one; set augment.preset: deit, light or none, or set task: dino "
          "or supcon")};
}

std::optional<ConfigProblem> several_views_problem(const ExperimentConfig& config,
                                                   AugmentPreset preset, const std::string& name) {
  if (config.augment.preset == preset || config.data.dataset == "tensors") return {};
  return ConfigProblem{{"augment.preset", "task"},
                       cat("augment.preset does not make the views of the task ", config.task,
                           "; set augment.preset: ", name)};
}

std::optional<ConfigProblem> supcon_problem(const ExperimentConfig& config) {
  return several_views_problem(config, AugmentPreset::kSupcon, "supcon");
}

}  // namespace dtn
