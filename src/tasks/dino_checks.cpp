#include "tasks/dino_checks.h"

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "tasks/view_checks.h"

namespace dtn {
namespace {

using Problem = std::optional<ConfigProblem>;

Problem average_problem(const ExperimentConfig& config) {
  if (!config.train.ema) return {};
  return ConfigProblem{{"train.ema"},
                       "train.ema: the task dino has a teacher, which is the moving average of the "
                       "weights; remove train.ema, and set dino.teacher_momentum instead"};
}

// Finds areas of crops in the section augment, where the task does not read them.
Problem scale_problem(const ExperimentConfig& config) {
  const AugmentConfig& augment = config.augment;
  const AugmentConfig usual = augment_preset(augment.preset);
  if (augment.preset != AugmentPreset::kDino) return {};
  if (augment.scale_min == usual.scale_min && augment.scale_max == usual.scale_max) return {};
  return ConfigProblem{{"augment.scale", "augment.preset"},
                       "augment.scale means nothing for the task dino; set dino.global_scale and "
                       "dino.local_scale"};
}

// Finds local views that a vision transformer cannot split into patches.
Problem local_size_problem(const ExperimentConfig& config) {
  const int side = config.dino.local_size, patch = config.model.patch_size;
  const bool has_local_views = config.dino.local_crops > 0;
  if (config.model.family != "vit" || !has_local_views || side % patch == 0) return {};
  const int below = side / patch * patch, above = below + patch;
  return ConfigProblem{{"dino.local_size", "model.patch_size"},
                       cat("dino.local_size ", side, " is not divisible by model.patch_size ",
                           patch, "; the nearest local_size that is: ",
                           below > 0 ? cat(below, " or ", above) : cat(above))};
}

}  // namespace

Problem dino_problem(const ExperimentConfig& config) {
  if (auto problem = average_problem(config)) return problem;
  if (auto problem = several_views_problem(config, AugmentPreset::kDino, "dino")) return problem;
  if (auto problem = scale_problem(config)) return problem;
  return local_size_problem(config);
}

}  // namespace dtn
