// Diffusion models: the section `diffusion` of a config.
#pragma once

#include <cstdint>
#include <optional>

#include "dtn/config/period.h"

namespace dtn {

// The diffusion process (Ho, Jain and Abbeel, "Denoising diffusion probabilistic models", NeurIPS
// 2020), and the samples that a training run draws.
struct DiffusionConfig {
  std::int64_t steps = 1000;  // noise levels
  // Variance of the noise of the first and of the last of 1000 steps; linear in between. Other
  // numbers of steps scale both by 1000 / steps.
  double beta_start = 1e-4, beta_end = 0.02;
  bool clip = false;  // while sampling, predicted images are limited to [-1, 1]
  // Samples of a training run. Unset: with each evaluation.
  std::optional<Period> sample_every;
  std::int64_t sample_steps = 50;  // of DDIM
  double sample_guidance = 1.5;
  std::int64_t sample_count = 64;
  bool operator==(const DiffusionConfig&) const = default;
};

}  // namespace dtn
