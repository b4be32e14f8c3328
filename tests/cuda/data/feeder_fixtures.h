// Data sets and steps for the feeder tests. A copy on the device simulates a step. Tests check the
// copies after the epoch.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "core/cuda_stream.h"
#include "cuda/twin.h"
#include "data/feed/feeder.h"
#include "unit/data/data_fixtures.h"
#include "unit/data/samples.h"

namespace dtn::test {

inline constexpr int kSide = 6;

// Noisy images with their index as the label, and a hook that may throw.
class NoisyImages final : public Dataset {
 public:
  explicit NoisyImages(std::int64_t size, int channels = 3,
                       std::function<void(std::int64_t)> hook = {})
      : channels_(channels), hook_(std::move(hook)) {
    for (std::int64_t i = 0; i < size; ++i) labels_.push_back(i);
    description_ = "a fake";
  }
  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    if (hook_) hook_(index);
    const int width = kSide + 3, height = kSide + 1;
    workspace.image = {width, height, channels_,
                       noise(static_cast<std::size_t>(width * height * channels_),
                             static_cast<std::uint32_t>(index))};
    return {.encoded = {}, .image = &workspace.image, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override { return cat("fake-", index); }

 private:
  int channels_;
  std::function<void(std::int64_t)> hook_;
};

inline Transform make_transform(bool training, int channels = 3) {
  AugmentConfig augment;
  if (training) augment.preset = AugmentPreset::kLight;
  augment.erase = 0.5;
  return Transform(DataConfig{}, augment, kSide, channels, training);
}

inline LoaderOptions loading(bool training, int workers) {
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = options.drop_last = training;
  options.seed = 3;
  options.workers = workers;
  return options;
}

// Copies of the batch that one step received.
struct Seen {
  std::int64_t number, n;
  std::vector<std::int64_t> indices;
  Tensor images, labels, host_labels;
};

// Lets the loader and the copies run ahead while the steps lag behind.
inline void hurry(const Loader& loader) {
  for (int i = 0; i < 20 && !loader.has_ready(); ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  cuda::Event copied;
  copied.record_copies();
  copied.wait();
}

// Simulates the remaining steps, at most `steps`. Each step copies its inputs on the device.
inline std::vector<Seen> play(BatchFeeder& feeder, std::int64_t steps = 1 << 20,
                              const Loader* hurried = nullptr) {
  std::vector<Seen> seen;
  DeviceBatch batch;
  while (steps-- > 0 && feeder.next(batch)) {
    if (hurried) hurry(*hurried);
    seen.push_back({batch.number, batch.n, batch.indices, batch.fields.at("image").clone(),
                    batch.fields.at("label").clone(), batch.host.at("label").clone()});
  }
  return seen;
}

inline std::vector<Seen> expected_of(std::shared_ptr<const Dataset> set, const Transform& transform,
                                     const LoaderOptions& options, std::int64_t epoch,
                                     std::int64_t first_batch = 0) {
  Loader loader(samples(std::move(set), transform), options);
  loader.start(epoch, first_batch);
  std::vector<Seen> seen;
  Batch batch;
  while (loader.next(batch)) {
    seen.push_back({batch.number,
                    batch.n,
                    batch.indices,
                    batch.fields.at("image"),
                    batch.fields.at("label"),
                    {}});
  }
  return seen;
}

inline void expect_same(const std::vector<Seen>& got, const std::vector<Seen>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(cat("batch ", want[i].number));
    EXPECT_EQ(got[i].number, want[i].number);
    EXPECT_EQ(got[i].n, want[i].n);
    EXPECT_EQ(got[i].indices, want[i].indices);
    EXPECT_EQ(got[i].images.shape(), want[i].images.shape());
    EXPECT_EQ(got[i].images.dtype(), DType::kFloat32);
    EXPECT_EQ(got[i].labels.shape(), want[i].labels.shape());
    EXPECT_TRUE(same_bits(got[i].images.to(kCpu), want[i].images));
    EXPECT_TRUE(same_bits(got[i].labels.to(kCpu), want[i].labels));
    EXPECT_TRUE(same_bits(got[i].host_labels, want[i].labels));
  }
}

}  // namespace dtn::test
