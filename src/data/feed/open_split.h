// Builds the path of a split from its files to the device, as a config says.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "data/feed/feeder.h"
#include "data/feed/image_samples.h"
#include "data/feed/loader.h"
#include "dtn/config/train_config.h"

namespace dtn {

struct SplitOptions {
  Device device = kCpu;         // destination of batches
  std::int64_t batch_size = 1;  // global: samples of all ranks together
  int rank = 0, ranks = 1;
};

// A loader and the feeder that drives it.
class OpenSplit {
 public:
  OpenSplit(std::shared_ptr<const SampleSource> source, const LoaderOptions& options, Device device)
      : loader_(std::move(source), feeding(device, options)), feeder_(loader_, device) {}

  const SampleSource& source() const { return loader_.source(); }
  Loader& loader() { return loader_; }
  BatchFeeder& feeder() { return feeder_; }

 private:
  Loader loader_;
  BatchFeeder feeder_;
};

// Returns the images of config.data for a device: transformed, and in training augmented and mixed.
std::shared_ptr<const ImageSamples> open_image_samples(
    const ExperimentConfig& config, Split split, Device device,
    const DataRegistries& registries = data_registries());
// The same for an open data set.
std::shared_ptr<const ImageSamples> image_samples_of(
    std::shared_ptr<const Dataset> dataset, const ExperimentConfig& config, Split split,
    Device device, const DataRegistries& registries = data_registries());

// Returns the loader options of a split: in training, shuffled, repeated and in full batches as the
// config says; otherwise once and in order.
LoaderOptions loading_of(const ExperimentConfig& config, Split split, const SplitOptions& options);

// Open a split with the samples of `source`, or with those of config.data.
std::unique_ptr<OpenSplit> open_split(std::shared_ptr<const SampleSource> source,
                                      const ExperimentConfig& config, Split split,
                                      const SplitOptions& options);
std::unique_ptr<OpenSplit> open_split(const ExperimentConfig& config, Split split,
                                      const SplitOptions& options,
                                      const DataRegistries& registries = data_registries());

}  // namespace dtn
