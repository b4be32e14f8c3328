// Samplers of a diffusion model. DDPM (Ho, Jain and Abbeel, NeurIPS 2020) draws x_(t-1) from its
// distribution given x_t; DDIM (Song, Meng and Ermon, "Denoising diffusion implicit models", ICLR
// 2021) moves along a deterministic path for eta 0. With the kept steps i of the process, the noise
// e that the model predicts, and abar' = abar_(i-1), 1 at the last step:
//    x_0 = (x - sqrt(1 - abar) e) / sqrt(abar)
//    DDPM: x <- mean_of_start x_0 + mean_of_noisy x + sigma z, sigma^2 the variance of the step
//    DDIM: x <- sqrt(abar') x_0 + sqrt(1 - abar' - sigma^2) (x - sqrt(abar) x_0) / sqrt(1 - abar)
//               + sigma z
//          sigma = eta sqrt((1 - abar') / (1 - abar)) sqrt(1 - abar / abar')
// The last step adds no noise.
#pragma once

#include <cstdint>
#include <functional>

#include "dtn/core/tensor.h"
#include "tasks/diffusion/process.h"
#include "tasks/diffusion/spacing.h"

namespace dtn {

// Runs the model: the noise in x [n, C, H, W] float32, given the time step t [n] int64 of all
// steps of the process and the label [n] int64. Returns [n, Co, H, W] float32, Co = C, or 2 C with
// the interpolation v of the variances in the second half.
using Denoiser = std::function<Tensor(const Tensor& x, const Tensor& t, const Tensor& label)>;

struct SamplerOptions {
  SamplerKind kind = SamplerKind::kDdim;
  std::int64_t steps = 50;  // see spaced_steps()
  double eta = 0;           // DDIM: 0 adds no noise, 1 the variance of the posterior
  // e = e of no label + guidance (e of the label - e of no label), in the first three channels (the
  // public figures of DiT depend on that). The others, and v, are those of the label. 1: one pass
  // of the model, with the label.
  double guidance = 1;
  std::int64_t no_label = 0;  // the label that means none; read only with guidance
  bool clip = false;          // limits x_0 to [-1, 1]
};

class Sampler {
 public:
  // Throws ConfigError for a number of steps that the sampler cannot take, and for values out of
  // range.
  Sampler(const DiffusionConfig& config, const SamplerOptions& options);

  // Number of steps; the model runs once in each, on twice the images with guidance.
  std::int64_t steps() const { return process_.size(); }
  bool is_guided() const { return options_.guidance != 1; }
  // True if the steps add noise.
  bool is_random() const { return options_.kind == SamplerKind::kDdpm || options_.eta > 0; }

  // Returns the noise z [n, C, H, W] float32 of a step; step 0 is the noisiest.
  using StepNoise = std::function<Tensor(std::int64_t step)>;
  // Called before each step with the number of finished steps. Returns false to stop.
  using OnStep = std::function<bool(std::int64_t done)>;
  // Turns noise x [n, C, H, W] float32 into images, in place. `label` [n] int64 lies on the device
  // of x. `noise` is called only if is_random(). Returns false if `on_step` stopped it.
  bool run(const Denoiser& model, Tensor x, const Tensor& label, const StepNoise& noise,
           const OnStep& on_step = {}) const;

 private:
  struct Coefficients {
    double from_noisy, from_noise;  // x_0 = from_noisy x - from_noise e
    double of_start, of_noisy;      // x <- of_start x_0 + of_noisy x + sigma z
    double sigma;                   // without a learned variance
  };
  Coefficients coefficients_of(const DiffusionProcess::Step& step) const;
  void apply(const DiffusionProcess::Step& step, const Tensor& output, const Tensor& z,
             Tensor& x) const;

  SamplerOptions options_;
  DiffusionProcess process_;
};

}  // namespace dtn
