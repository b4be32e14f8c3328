#include "data/feed/open_split.h"

#include <utility>

#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {

namespace {

Transform transform_of(const ExperimentConfig& config, Split split,
                       const DataRegistries& registries) {
  return Transform(config.data, config.augment, config.model.image_size, config.model.channels,
                   split == Split::kTrain, {}, registries);
}

std::shared_ptr<const ImageSamples> assemble(std::shared_ptr<const Dataset> dataset,
                                             Transform transform, const ExperimentConfig& config,
                                             Split split, Device device) {
  const int channels = config.model.channels;
  if (dataset->has_pixels() && channels != 1 && channels != 3) {
    throw ConfigError(cat("model.channels is ", channels, ", but data.dataset ",
                          config.data.dataset,
                          " has images of 1 or 3 channels; tensors may have "
                          "any number (data.dataset tensors)"));
  }
  ImageSamplesOptions options;
  options.raw_pixels = device.type == DeviceType::kCuda;
  if (split == Split::kTrain) options.mixing = config.augment;
  options.condition = condition_field(config.model);
  const Tensor* styles = dataset->ready_fields().find("style");
  if (styles && config.model.condition.from == ConditionFrom::kIndex) {
    check_style_range(*styles, config.model, dataset->description());
  }
  return std::make_shared<ImageSamples>(std::move(dataset), std::move(transform), options);
}

}  // namespace

std::shared_ptr<const ImageSamples> image_samples_of(std::shared_ptr<const Dataset> dataset,
                                                     const ExperimentConfig& config, Split split,
                                                     Device device,
                                                     const DataRegistries& registries) {
  return assemble(std::move(dataset), transform_of(config, split, registries), config, split,
                  device);
}

std::shared_ptr<const ImageSamples> open_image_samples(const ExperimentConfig& config, Split split,
                                                       Device device,
                                                       const DataRegistries& registries) {
  Transform transform = transform_of(config, split, registries);  // reports a bad config first
  return assemble(open_dataset(config.data, config.model, split, config.seed, registries.datasets),
                  std::move(transform), config, split, device);
}

LoaderOptions loading_of(const ExperimentConfig& config, Split split, const SplitOptions& options) {
  const bool training = split == Split::kTrain;
  LoaderOptions loading;
  loading.batch_size = options.batch_size;
  loading.rank = options.rank;
  loading.ranks = options.ranks;
  loading.shuffle = training && config.data.shuffle;
  loading.balanced = loading.shuffle && config.data.sampling == Sampling::kBalanced;
  loading.seed = config.seed;
  loading.workers = workers_of(config.data, options.device);
  loading.drop_last = training;
  loading.repeats = training ? config.data.repeats : 1;
  loading.copies = training ? config.augment.repeats : 1;
  loading.max_bad_images = config.data.max_bad_images;
  return loading;
}

std::unique_ptr<OpenSplit> open_split(std::shared_ptr<const SampleSource> source,
                                      const ExperimentConfig& config, Split split,
                                      const SplitOptions& options) {
  return std::make_unique<OpenSplit>(std::move(source), loading_of(config, split, options),
                                     options.device);
}

std::unique_ptr<OpenSplit> open_split(const ExperimentConfig& config, Split split,
                                      const SplitOptions& options,
                                      const DataRegistries& registries) {
  return open_split(open_image_samples(config, split, options.device, registries), config, split,
                    options);
}

}  // namespace dtn
