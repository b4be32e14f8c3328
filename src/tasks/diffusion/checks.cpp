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

std::optional<ConfigProblem> pixel_problem(const ExperimentConfig& config) {
  const DataConfig& data = config.data;
  for (const char* key : {"mean", "std"}) {
    const bool is_set = key[0] == 'm' ? !data.mean.empty() : !data.std.empty();
    if (!is_set) continue;
    return ConfigProblem{{cat("data.", key), "task"},
                         cat("data.", key,
                             " means nothing for the task diffusion, which maps "
                             "pixels to [-1, 1]; remove it")};
  }
  return {};
}

std::optional<ConfigProblem> augment_problem(const AugmentConfig& a) {
  if (a.preset != AugmentPreset::kNone) {
    return ConfigProblem{{"augment.preset", "task"},
                         "the task diffusion trains on whole images, which no augment.preset but "
                         "none leaves whole; set augment.preset: none, and augment.hflip for the "
                         "mirror images"};
  }
  const struct {
    const char* path;
    bool set;
  } unread[] = {{"augment.policy", a.policy != "none"},
                {"augment.color_jitter", a.color_jitter != 0},
                {"augment.erase", a.erase != 0},
                {"augment.mixup", a.mixup != 0},
                {"augment.cutmix", a.cutmix != 0}};
  for (const auto& [path, set] : unread) {
    if (!set) continue;
    return ConfigProblem{{path, "task"},
                         cat(path,
                             " would change the images that the task diffusion learns; "
                             "remove it")};
  }
  return {};
}

}  // namespace

std::optional<ConfigProblem> diffusion_problem(const ExperimentConfig& config) {
  if (auto problem = process_problem(config.diffusion)) return problem;
  if (auto problem = augment_problem(config.augment)) return problem;
  if (config.data.dataset == "tensors") return {};
  return pixel_problem(config);
}

}  // namespace dtn
