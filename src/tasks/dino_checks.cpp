#include "tasks/dino_checks.h"

#include "dtn/core/check.h"

namespace dtn {

std::optional<ConfigProblem> dino_problem(const ExperimentConfig& config) {
  const int side = config.dino.local_size, patch = config.model.patch_size;
  const bool has_local_views = config.dino.local_crops > 0;
  if (config.model.family != "vit" || !has_local_views || side % patch == 0) return std::nullopt;
  const int below = side / patch * patch, above = below + patch;
  return ConfigProblem{{"dino.local_size", "model.patch_size"},
                       cat("dino.local_size ", side, " is not divisible by model.patch_size ",
                           patch, "; the nearest local_size that is: ",
                           below > 0 ? cat(below, " or ", above) : cat(above))};
}

}  // namespace dtn
