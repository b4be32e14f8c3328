// The diffusion process (Ho, Jain and Abbeel, "Denoising diffusion probabilistic models", NeurIPS
// 2020) as tables in float64: with time steps t = 0 .. S - 1 and noise e,
//     x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) e,   abar_t = product over s <= t of 1 - beta_s
// Products of float32 would lose the smallest abar_t.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtn/config/diffusion_config.h"

namespace dtn {

class DiffusionProcess {
 public:
  // All steps of a config.
  explicit DiffusionProcess(const DiffusionConfig& config);
  // The process that visits only the steps at the positions `kept`, which ascend. Its beta follow
  // from the ratios of the kept abar (Nichol and Dhariwal, "Improved denoising diffusion
  // probabilistic models", ICML 2021).
  DiffusionProcess respaced(std::span<const std::int64_t> kept) const;

  // Number of steps, S.
  std::int64_t size() const { return static_cast<std::int64_t>(steps_.size()); }
  // One step. The posterior is the distribution of x_(t-1), given x_t and x_0.
  struct Step {
    std::int64_t time;              // t of all steps of the config, which the network reads
    double beta, alpha_bar;         // beta_t, abar_t
    double alpha_bar_before;        // abar_(t-1); 1 at the first step
    double posterior_variance;      // 0 at the first step
    double posterior_log_variance;  // of the second step at the first
    double mean_of_start;           // the posterior mean is mean_of_start x_0 + mean_of_noisy x_t
    double mean_of_noisy;
  };
  const Step& at(std::int64_t step) const { return steps_[static_cast<std::size_t>(step)]; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  DiffusionProcess() = default;
  // Fills the steps from their time, beta and alpha_bar.
  void complete();

  std::vector<Step> steps_;
};

}  // namespace dtn
