// The views of the tasks dino and supcon, as a config says.
#include <algorithm>
#include <string_view>
#include <utility>

#include "data/feed/view_samples.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

// Tasks that always train on views, whether made or given.
constexpr std::string_view kDinoTask = "dino", kSupconTask = "supcon";

// Range of the hue, and of the saturation, for a range 1 of the brightness.
constexpr double kHueShare = 0.25, kDinoSaturation = 0.5, kSupconSaturation = 1;

// Returns the augmentation of view number `view`; its crop has the areas of `augment`.
ViewAugment view_augment(const AugmentConfig& augment, int view, double saturation) {
  const double x = augment.color_jitter;
  ViewAugment result;
  result.crop = augment;
  result.jitter = {x, x, saturation * x, kHueShare * x};
  result.gray = augment.gray;
  if (const std::vector<double>& blur = augment.blur; !blur.empty()) {
    result.blur = blur[std::min(static_cast<std::size_t>(view), blur.size() - 1)];
  }
  result.solarize = view == 1 ? augment.solarize : 0;
  return result;
}

// Makes a set of views; `first` is the number of its first view.
ViewSet view_set(const std::string& field, int views, const ImageSize& size,
                 const AugmentConfig& augment, int first, double saturation) {
  ViewSet set{field, views, size};
  for (int i = 0; i < views; ++i) {
    set.augments.push_back(view_augment(augment, first + i, saturation));
  }
  return set;
}

AugmentConfig with_scale(AugmentConfig augment, double least, double most) {
  augment.scale_min = least;
  augment.scale_max = most;
  return augment;
}

std::vector<ViewSet> dino_sets(const ExperimentConfig& config) {
  const DinoConfig& d = config.dino;
  const AugmentConfig large = with_scale(config.augment, d.global_scale_min, d.global_scale_max);
  const AugmentConfig small = with_scale(config.augment, d.local_scale_min, d.local_scale_max);
  std::vector<ViewSet> sets{
      view_set("global", 2, config.model.image_size, large, 0, kDinoSaturation)};
  if (d.local_crops > 0) {
    sets.push_back(view_set("local", d.local_crops, d.local_size, small, 2, kDinoSaturation));
  }
  return sets;
}

std::vector<ViewSet> supcon_sets(const ExperimentConfig& config) {
  return {view_set("views", config.supcon.views, config.model.image_size, config.augment, 0,
                   kSupconSaturation)};
}

// Throws ConfigError if views would have to be cut without a preset that says how.
std::shared_ptr<const ViewSamples> assemble_views(std::shared_ptr<const Dataset> dataset,
                                                  std::vector<ViewSet> sets, bool labels,
                                                  const ExperimentConfig& config, Device device,
                                                  const DataRegistries& registries) {
  if (dataset->vocabulary() > 0) {
    throw ConfigError(cat("views are cut from images, but the data set has sequences of tokens: ",
                          dataset->description()));
  }
  if (dataset->has_pixels() && !config.augment.makes_views()) {
    throw ConfigError(cat("task ", config.task,
                          " needs several views of each image, which augment.preset does not make; "
                          "set augment.preset: dino or supcon"));
  }
  const ViewSamplesOptions options{.labels = labels,
                                   .raw_pixels = device.type == DeviceType::kCuda};
  return std::make_shared<ViewSamples>(std::move(dataset), std::move(sets), config.data,
                                       config.model, options, registries);
}

std::shared_ptr<const Dataset> training_images(const ExperimentConfig& config,
                                               const DataRegistries& registries) {
  return open_for_views(config.data, config.model, Split::kTrain, config.seed, registries.datasets);
}

}  // namespace

std::shared_ptr<const SampleSource> dino_samples_of(std::shared_ptr<const Dataset> dataset,
                                                    const ExperimentConfig& config, Device device,
                                                    const DataRegistries& registries) {
  return assemble_views(std::move(dataset), dino_sets(config), false, config, device, registries);
}

std::shared_ptr<const SampleSource> supcon_samples_of(std::shared_ptr<const Dataset> dataset,
                                                      const ExperimentConfig& config, Device device,
                                                      const DataRegistries& registries) {
  return assemble_views(std::move(dataset), supcon_sets(config), true, config, device, registries);
}

std::shared_ptr<const SampleSource> dino_samples_of(const ExperimentConfig& config, Device device,
                                                    const DataRegistries& registries) {
  return dino_samples_of(training_images(config, registries), config, device, registries);
}

std::shared_ptr<const SampleSource> supcon_samples_of(const ExperimentConfig& config, Device device,
                                                      const DataRegistries& registries) {
  return supcon_samples_of(training_images(config, registries), config, device, registries);
}

bool trains_on_views(const ExperimentConfig& config) {
  return config.task == kDinoTask || config.task == kSupconTask || config.augment.makes_views();
}

std::shared_ptr<const ViewSamples> open_view_samples(const ExperimentConfig& config, Device device,
                                                     const DataRegistries& registries) {
  const bool by_preset = config.task != kDinoTask && config.task != kSupconTask;
  const bool contrast =
      by_preset ? config.augment.preset == AugmentPreset::kSupcon : config.task == kSupconTask;
  return assemble_views(training_images(config, registries),
                        contrast ? supcon_sets(config) : dino_sets(config), contrast, config,
                        device, registries);
}

}  // namespace dtn
