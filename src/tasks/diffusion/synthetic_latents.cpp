#include "tasks/diffusion/synthetic_latents.h"

#include <algorithm>

#include "core/normal_noise.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kLatentStream = 0xD1FF0010u;
constexpr std::int64_t kTrainSize = 1024, kValSize = 256;

class SyntheticLatents final : public Dataset {
 public:
  SyntheticLatents(const ExperimentConfig& config, Split split)
      : seeds_{config.seed, kLatentStream, static_cast<std::uint32_t>(split)} {
    const ModelConfig& m = config.model;
    const std::int64_t count =
        config.data.size.value_or(split == Split::kTrain ? kTrainSize : kValSize);
    if (count < 1) throw ConfigError(cat("data.size must be at least 1, got ", count));
    values_ = std::int64_t{m.channels} * m.image_size.height * m.image_size.width;
    num_classes_ = std::max(1, m.num_classes);
    has_pixels_ = false;
    labels_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      labels_[static_cast<std::size_t>(i)] = i % num_classes_;
    }
    description_ = cat(count, " synthetic ", name_of(split), " latents of ", m.channels,
                       " channels and ", m.image_size);
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    workspace.bytes.resize(static_cast<std::size_t>(values_) * sizeof(float));
    auto* values = reinterpret_cast<float*>(workspace.bytes.data());
    const Philox4 words = philox_group(seeds_, static_cast<std::uint64_t>(index));
    write_noise(static_cast<std::uint64_t>(words.v[1]) << 32 | words.v[0], 0, values_, values);
    Sample sample;
    sample.ready = {values, static_cast<std::size_t>(values_)};
    return sample;
  }

  std::string sample_name(std::int64_t index) const override {
    return cat("synthetic[", index, "]");
  }

 private:
  PhiloxKey seeds_;
  std::int64_t values_;
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic_latents(const ExperimentConfig& config, Split split) {
  return std::make_unique<SyntheticLatents>(config, split);
}

}  // namespace dtn
