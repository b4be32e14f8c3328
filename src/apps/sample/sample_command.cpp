#include "apps/sample/sample_command.h"

#include <algorithm>
#include <system_error>

#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn::app {

namespace fs = std::filesystem;

namespace {

// True if training has hidden labels, so that the model knows the label that means none.
bool has_no_label(const ModelConfig& model) {
  return model.num_classes > 0 && model.label_dropout > 0;
}

// Throws ConfigError if the folder of an output does not exist.
void check_folder(const char* option, const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  std::error_code error;
  if (file.empty() || folder.empty() || fs::is_directory(folder, error)) return;
  throw ConfigError(
      cat(option, " ", file, ": there is no folder ", folder.string(), "; make it first"));
}

}  // namespace

bool shows_as_picture(const ModelConfig& model) {
  return model.channels == 1 || model.channels == 3;
}

void SampleCommand::add_to(CLI::App& app) {
  weights.add_to(app,
                 "use ema.safetensors beside the named file; a folder gives its average, if it has "
                 "one, without this flag",
                 "--checkpoint");
  app.add_flag("--untrained", untrained,
               "draw with the initial weights of the checkpoint's model, as a reference for "
               "dtn-eval --reference-samples");
  app.add_option("--classes", classes, "class of each image, such as 0,3,7")
      ->delimiter(',')
      ->type_name("CLASS,...");
  add_count(app, "--count", count,
            "number of images, through the classes in turn, in place of --classes")
      ->excludes("--classes")
      ->default_str("");
  add_defaulted(app, "--seed", seed, "seed of the noise; image i depends on it, and on i");
  add_choice(
      app, "--sampler", sampler, {"ddim", "ddpm"},
      "ddim, whose path is fixed by the first noise, or ddpm, which adds noise in each step");
  add_count(app, "--steps", steps,
            "number of steps; ddim needs an even stride through the steps of training");
  add_defaulted(app, "--eta", eta,
                "noise in the steps of ddim: 0 none, 1 the variance of the posterior");
  app.add_option("--cfg-scale", guidance,
                 "guidance scale: above 1, images follow their class more closely and vary less; "
                 "1: none (default: 1.5, or 1 for a model trained without model.label_dropout)");
  app.add_option("--output", output,
                 "picture to write: PNG, a grid of all images; for models of 1 or 3 channels");
  add_count(app, "--columns", columns, "images in a row of the picture (default: ceil(sqrt N))")
      ->default_str("");
  app.add_option(
      "--save-samples", samples,
      "safetensors file to write: `samples` [N, C, H, W] float32 and `labels` [N] int64, "
      "for dtn-eval --samples");
  app.add_option("--noise", noise,
                 "safetensors file with the noise to use in place of drawn noise: `x` [N, C, H, W] "
                 "and, for ddpm or --eta, `z` [steps, N, C, H, W], float32");
  add_count(app, "--batch", batch, "images in memory together; on the CPU it does not change them");
  machine.add_to(app);
}

void SampleCommand::check() const {
  if (classes.empty() && count == 0) {
    throw ConfigError("no images to draw; name their classes, --classes 0,3,7, or --count N");
  }
  if (output.empty() && samples.empty()) {
    throw ConfigError(
        "nothing to write; name a picture with --output grid.png, or a file of "
        "tensors with --save-samples samples.safetensors");
  }
  if (sampler == "ddpm" && eta != 0) {
    throw ConfigError(cat("--eta ", eta, " is for --sampler ddim; leave it out"));
  }
  check_folder("--output", output);
  check_folder("--save-samples", samples);
}

fs::path SampleCommand::file(const ConfigSchemas& schemas) const {
  fs::path named = weights.file(schemas), average = named.parent_path() / "ema.safetensors";
  std::error_code error;
  if (fs::is_directory(weights.located(schemas), error)) {
    if (weights.ema || !fs::exists(average, error)) return named;
    log_info(cat("using the moving average of the weights, ", average.string()));
    return average;
  }
  if (!weights.ema) return named;
  if (fs::exists(average, error)) return average;
  throw ConfigError(cat("--ema: there is no ", average.string(), "; leave --ema out"));
}

std::vector<std::int64_t> SampleCommand::labels(const ModelConfig& model) const {
  if (!classes.empty()) return classes;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(i % std::max(model.num_classes, 1));
  return labels;
}

void SampleCommand::check_model(const ExperimentConfig& config) const {
  const ModelConfig& model = config.model;
  for (const std::int64_t c : classes) {
    if (0 <= c && c < std::max(model.num_classes, 1)) continue;
    throw ConfigError(
        cat("--classes: ", c, " is no class of the model, which has ", model.num_classes,
            model.num_classes > 0 ? cat(": 0 to ", model.num_classes - 1) : "; use 0"));
  }
  if (guidance && *guidance != 1 && !has_no_label(model)) {
    throw ConfigError(cat("--cfg-scale ", *guidance,
                          ": the model was trained with every label "
                          "(model.label_dropout is 0), and guidance needs its output without one; "
                          "use --cfg-scale 1"));
  }
  if (samples.empty() && !shows_as_picture(model)) {
    throw ConfigError(cat("--output: images of ", model.channels,
                          " channels are no picture; write "
                          "them with --save-samples, and decode them"));
  }
}

SamplerOptions SampleCommand::sampler_options(const ExperimentConfig& config) const {
  const double usual = has_no_label(config.model) ? kDefaultGuidance : 1;
  return {.kind = sampler == "ddpm" ? SamplerKind::kDdpm : SamplerKind::kDdim,
          .steps = steps,
          .eta = eta,
          .guidance = guidance.value_or(usual),
          .no_label = config.model.num_classes,
          .clip = config.diffusion.clip};
}

}  // namespace dtn::app
