// The samples that a training run draws.
#include "core/stop_signal.h"
#include "dtn/data/datasets.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/diffusion.h"
#include "tasks/diffusion/denoiser.h"
#include "tasks/diffusion/sample_grid.h"
#include "tasks/diffusion/sample_images.h"

namespace dtn {
namespace {

constexpr std::uint64_t kPictureSeed = 0;

bool shows_as_picture(const ModelConfig& model) {
  return model.channels == 1 || model.channels == 3;  // latents are no pictures
}

SamplerOptions picture_options(const ExperimentConfig& config) {
  const DiffusionConfig& diffusion = config.diffusion;
  const bool has_no_label = config.model.num_classes > 0 && config.model.label_dropout > 0;
  return {.steps = ddim_steps_up_to(diffusion.steps, diffusion.sample_steps),
          .guidance = has_no_label ? diffusion.sample_guidance : 1,
          .no_label = config.model.num_classes,
          .clip = diffusion.clip};
}

}  // namespace

std::optional<Period> Diffusion::picture_period() const {
  if (!shows_as_picture(config_.model)) return std::nullopt;
  if (config_.diffusion.sample_every) return config_.diffusion.sample_every;
  return has_validation(config_.data) ? config_.train.eval_every : config_.train.checkpoint_every;
}

double Diffusion::picture_multiply_adds() {
  const SamplerOptions options = picture_options(config_);
  const auto passes = static_cast<double>(options.steps * (options.guidance == 1 ? 1 : 2));
  return static_cast<double>(config_.diffusion.sample_count) * passes *
         cost().computed_multiply_adds;
}

// The classes in turn, from the same noise each time. A signal stops it; the picture is then empty.
Image Diffusion::picture(DType compute) {
  const ModelConfig& m = config_.model;
  SampleRequest request{.labels = {},
                        .image = {m.channels, m.image_size.height, m.image_size.width},
                        .seed = kPictureSeed};
  for (std::int64_t i = 0; i < config_.diffusion.sample_count; ++i) {
    request.labels.push_back(m.num_classes > 0 ? i % m.num_classes : 0);
  }
  request.on_progress = [](std::int64_t, std::int64_t) { return !stop_requested(); };
  const Sampler sampler(config_.diffusion, picture_options(config_));
  const Denoiser model = replayed(denoiser_of(*model_, compute), device_, config_.train.step_graph);
  const Tensor samples = sample_images(sampler, model, device_, request);
  return samples.defined() ? sample_grid(samples) : Image{};
}

}  // namespace dtn
