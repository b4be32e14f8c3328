#include "tasks/diffusion/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/queue.h"
#include "dtn/core/check.h"
#include "kernels/image/sampler_step.h"

namespace dtn {
namespace {

constexpr std::int64_t kGuidedChannels = 3;

void check_range(bool holds, const char* name, double value, const char* range) {
  if (!holds) throw ConfigError(cat(name, " is ", value, "; it must be ", range));
}

// `t` for each of n images.
Tensor times(std::int64_t n, std::int64_t t, Device device) {
  return Tensor::full({n}, DType::kInt64, static_cast<double>(t), device);
}

// [x; x]
Tensor twice(const Tensor& x, Tensor both) {
  const std::int64_t n = x.dim(0);
  both.slice(0, n).copy_from(x);
  both.slice(n, 2 * n).copy_from(x);
  return both;
}

Tensor with_no_label(const Tensor& label, std::int64_t no_label) {
  const std::int64_t n = label.dim(0);
  Tensor both = Tensor::empty({2 * n}, DType::kInt64, label.device());
  Tensor none = Tensor::empty({n}, DType::kInt64);
  std::fill_n(none.data<std::int64_t>(), n, no_label);
  both.slice(0, n).copy_from(label);
  both.slice(n, 2 * n).copy_from(none);
  return both;
}

void check_output(const Tensor& output, const Tensor& x, std::int64_t rows) {
  const bool fits = output.rank() == 4 && output.dim(0) == rows && output.dim(2) == x.dim(2) &&
                    output.dim(3) == x.dim(3) && output.dtype() == DType::kFloat32 &&
                    (output.dim(1) == x.dim(1) || output.dim(1) == 2 * x.dim(1));
  DTN_CHECK(fits, "a denoiser of ", rows, " images like ", to_string(x.shape()), " returned ",
            to_string(output.shape()), " ", name_of(output.dtype()));
}

}  // namespace

Sampler::Sampler(const DiffusionConfig& config, const SamplerOptions& options)
    : options_(options),
      process_(DiffusionProcess(config).respaced(
          spaced_steps(options.kind, config.steps, options.steps))) {
  check_range(options.eta >= 0 && options.eta <= 1, "eta", options.eta, "from 0 to 1");
  check_range(options.guidance >= 0 && std::isfinite(options.guidance), "the guidance scale",
              options.guidance, "at least 0");
}

Sampler::Coefficients Sampler::coefficients_of(const DiffusionProcess::Step& step) const {
  const double abar = step.alpha_bar, before = step.alpha_bar_before;
  Coefficients c{};
  c.from_noisy = 1 / std::sqrt(abar);
  c.from_noise = std::sqrt(1 / abar - 1);
  if (options_.kind == SamplerKind::kDdpm) {
    c.of_start = step.mean_of_start;
    c.of_noisy = step.mean_of_noisy;
    c.sigma = std::sqrt(step.beta);
    return c;
  }
  c.sigma = options_.eta * std::sqrt((1 - before) / (1 - abar)) * std::sqrt(1 - abar / before);
  // x_0 and the noise follow from each other, so the noise is a sum of x and x_0.
  const double of_noise = std::sqrt(1 - before - c.sigma * c.sigma);
  c.of_noisy = of_noise / std::sqrt(1 - abar);
  c.of_start = std::sqrt(before) - c.of_noisy * std::sqrt(abar);
  return c;
}

void Sampler::apply(const DiffusionProcess::Step& step, const Tensor& output, const Tensor& z,
                    Tensor& x) const {
  const Coefficients c = coefficients_of(step);
  const std::int64_t n = x.dim(0), channels = x.dim(1);
  const bool learned = options_.kind == SamplerKind::kDdpm && output.dim(1) == 2 * channels;
  const auto at = [](const Tensor& t) { return static_cast<const float*>(t.raw()); };
  const Tensor labelled = output.slice(0, n);
  run_on(x.device(),
         SamplerStep{.batch = n,
                     .channels = channels,
                     .pixels = x.dim(2) * x.dim(3),
                     .output_channels = output.dim(1),
                     .output = at(labelled),
                     .unlabelled = is_guided() ? at(output.slice(n, 2 * n)) : nullptr,
                     .guided = std::min(kGuidedChannels, channels),
                     .guidance = static_cast<float>(options_.guidance),
                     .from_noisy = static_cast<float>(c.from_noisy),
                     .from_noise = static_cast<float>(c.from_noise),
                     .clip = options_.clip,
                     .of_start = static_cast<float>(c.of_start),
                     .of_noisy = static_cast<float>(c.of_noisy),
                     .z = z.defined() ? at(z) : nullptr,
                     .sigma = static_cast<float>(c.sigma),
                     .learned = learned,
                     .log_sigma_low = static_cast<float>(0.5 * step.posterior_log_variance),
                     .log_sigma_high = static_cast<float>(0.5 * std::log(step.beta)),
                     .x = static_cast<float*>(x.raw())});
}

bool Sampler::run(const Denoiser& model, Tensor x, const Tensor& label, const StepNoise& noise,
                  const OnStep& on_step) const {
  const std::int64_t n = x.dim(0), rows = is_guided() ? 2 * n : n;
  const Tensor labels = is_guided() ? with_no_label(label, options_.no_label) : label;
  Tensor both;
  if (is_guided())
    both = Tensor::empty({rows, x.dim(1), x.dim(2), x.dim(3)}, x.dtype(), x.device());
  for (std::int64_t k = 0; k < steps(); ++k) {
    if (on_step && !on_step(k)) return false;
    const DiffusionProcess::Step& step = process_.at(steps() - 1 - k);
    const Tensor output =
        model(is_guided() ? twice(x, both) : x, times(rows, step.time, x.device()), labels);
    check_output(output, x, rows);
    const bool last = k + 1 == steps();
    apply(step, output, is_random() && !last ? noise(k) : Tensor(), x);
  }
  return !on_step || on_step(steps());
}

}  // namespace dtn
