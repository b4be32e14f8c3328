#include "dtn/app/sample_main.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "apps/sample/sample_command.h"
#include "config/codec.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/seconds_since.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/diffusion.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"
#include "tasks/class_names.h"
#include "tasks/diffusion/denoiser.h"
#include "tasks/diffusion/noise_file.h"
#include "tasks/diffusion/sample_grid.h"
#include "tasks/diffusion/sample_images.h"
#include "tasks/judging/sample_file.h"

namespace dtn::app {
namespace {

// Makes the diffusion model of a config.
std::unique_ptr<Diffusion> make_model(const TaskSetup& setup) {
  std::unique_ptr<Task> task = make_task(setup);
  auto* diffusion = dynamic_cast<Diffusion*>(task.get());
  if (!diffusion) {
    throw ConfigError(cat("dtn-sample needs a diffusion model; the task of this model is ",
                          setup.config.task, ". dtn-predict names the classes of images"));
  }
  static_cast<void>(task.release());
  return std::unique_ptr<Diffusion>(diffusion);
}

// Draws a bar with the finished steps of all images.
class SampleProgress {
 public:
  SampleProgress(std::int64_t images, std::int64_t steps)
      : bar_("sampling", images * steps), steps_(steps) {}
  // Returns false if a signal has arrived.
  bool operator()(std::int64_t done) {
    const double seconds = std::max(seconds_since(start_), 1e-3);
    bar_.update(done, format("%.3g images/s",
                             static_cast<double>(done) / static_cast<double>(steps_) / seconds));
    return !stop_requested();
  }

 private:
  ProgressBar bar_;
  std::int64_t steps_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void warn_of_infinite(const Tensor& samples) {
  const std::int64_t n = samples.dim(0), each = samples.numel() / n;
  std::int64_t damaged = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float* values = samples.data<float>() + i * each;
    damaged += !std::all_of(values, values + each, [](float v) { return std::isfinite(v); });
  }
  if (damaged == 0) return;
  log_warn(cat(damaged, " of ", counted(n, "images"), damaged == 1 ? " has" : " have",
               " values that are not finite; the training may have diverged, or the guidance is "
               "too strong"));
}

// Returns what the samples depend on, and the names of their classes.
StringMap metadata_of(const SampleCommand& options, const SamplerOptions& sampler,
                      const StringMap& weights, int classes) {
  StringMap metadata = {{"sampler", options.sampler},
                        {"steps", std::to_string(sampler.steps)},
                        {"eta", config::number_text(sampler.eta)},
                        {"guidance", config::number_text(sampler.guidance)},
                        {"seed", std::to_string(options.seed)}};
  if (!options.noise.empty()) metadata.erase("seed");  // it draws nothing
  if (classes == 0) metadata[kUnconditionalKey] = "1";
  if (options.untrained) metadata["step"] = "0";
  for (const char* key : {kClassNamesKey, "step"}) {
    if (const auto found = weights.find(key); found != weights.end()) metadata.insert(*found);
  }
  return metadata;
}

void write_picture(const SampleCommand& options, const Tensor& samples, const ModelConfig& model) {
  if (options.output.empty()) return;
  if (!shows_as_picture(model)) {
    log_warn(cat("wrote no ", options.output, ": images of ", model.channels,
                 " channels are no picture"));
    return;
  }
  std::vector<std::byte> png;
  encode_png(sample_grid(samples, options.columns), png);
  write_file_atomic(options.output, {reinterpret_cast<const char*>(png.data()), png.size()});
}

int run_sample(const SampleCommand& options, const Registries& registries) {
  options.check();
  const Device device = options.machine.apply();
  const std::filesystem::path file = options.file(registries.schemas());
  const TensorFile weights = read_safetensors(file);
  const auto step = weights.metadata.find("step");
  if (step != weights.metadata.end()) {
    log_info(cat("weights: ", std::filesystem::canonical(file).string(), ", step ", step->second));
  }
  const ExperimentConfig config = options.weights.config_of(weights, registries.schemas());
  const std::unique_ptr<Diffusion> task = make_model({config, device, registries});
  options.check_model(config);
  const SamplerOptions sampling = options.sampler_options(config);
  const Sampler sampler(config.diffusion, sampling);
  const ModelConfig& model = config.model;
  const Shape image{model.channels, model.image_size.height, model.image_size.width};
  SampleRequest request{.labels = options.labels(model),
                        .image = image,
                        .seed = options.seed,
                        .batch = options.batch};
  const auto n = static_cast<std::int64_t>(request.labels.size());
  if (!options.noise.empty()) {
    request.noise = read_noise_file(options.noise, {n, image[0], image[1], image[2]}, sampler);
  }
  if (!options.untrained) {
    for (const std::string& note : task->load_weights(file.string(), WeightsUse::kEvaluation))
      log_info(note);
  }
  install_stop_signals();
  const auto start = std::chrono::steady_clock::now();
  Tensor samples;
  {
    SampleProgress progress(n, sampler.steps());
    request.on_progress = [&](std::int64_t done, std::int64_t) { return progress(done); };
    const Denoiser denoiser =
        replayed(denoiser_of(task->model(), DType::kFloat32), device, config.train.step_graph);
    samples = sample_images(sampler, denoiser, device, request);
  }
  if (!samples.defined()) {
    log_info("stopped by a signal; wrote nothing");
    return kExitStopped;
  }
  if (!options.samples.empty()) {
    write_safetensors(options.samples,
                      {{"samples", samples}, {"labels", Tensor::from(request.labels, {n})}},
                      metadata_of(options, sampling, weights.metadata, model.num_classes));
  }
  write_picture(options, samples, model);
  warn_of_infinite(samples);
  log_info(cat(counted(n, "images"), " in ", counted(sampler.steps(), "steps"),
               format(": %.1f s", seconds_since(start))));
  return kExitDone;
}

}  // namespace

int sample_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Draws images from a diffusion model. The same options give the same images; an image does "
      "not depend on how many others are drawn.",
      "dtn-sample"};
  SampleCommand options;
  options.add_to(app);
  return run_program(app, argc, argv, Processes::kOne,
                     [&] { return run_sample(options, registries); });
}

}  // namespace dtn::app
