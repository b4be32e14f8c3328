#include "tasks/diffusion/checks.h"

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

std::optional<ConfigProblem> process_problem(const DiffusionConfig& diffusion) {
  if (diffusion.beta_start > diffusion.beta_end) {
    return ConfigProblem{
        {"diffusion.beta_start", "diffusion.beta_end"},
        cat("diffusion.beta_start ", diffusion.beta_start, " is larger than diffusion.beta_end ",
            diffusion.beta_end, "; the variance of the noise must not fall")};
  }
  const double last = diffusion.beta_end * 1000 / static_cast<double>(diffusion.steps);
  if (last < 1) return {};
  return ConfigProblem{
      {"diffusion.steps", "diffusion.beta_end"},
      cat("diffusion.steps ", diffusion.steps, " scales diffusion.beta_end ", diffusion.beta_end,
          " to ", format("%g", last),
          ", and a variance must be below 1; set diffusion.steps above ",
          static_cast<std::int64_t>(1000 * diffusion.beta_end), ", or a smaller beta_end")};
}

std::optional<ConfigProblem> augment_problem(const AugmentConfig& augment) {
  if (augment.preset == AugmentPreset::kNone) return {};
  return ConfigProblem{{"augment.preset", "task"},
                       "the task diffusion trains on whole images, which no augment.preset but "
                       "none leaves whole; set augment.preset: none, and augment.hflip for the "
                       "mirror images"};
}

}  // namespace

std::optional<ConfigProblem> diffusion_problem(const ExperimentConfig& config) {
  if (auto problem = process_problem(config.diffusion)) return problem;
  return augment_problem(config.augment);
}

}  // namespace dtn
