// Opening the splits of a config.
#include "data/feed/open_split.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "data/feed/single_sample.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "epoch_order.h"
#include "tensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

ExperimentConfig small_config() {
  ExperimentConfig config;
  config.seed = 9;
  config.model.image_size = 6;
  config.model.channels = 3;
  config.model.num_classes = 5;
  config.data.dataset = "synthetic";
  config.data.size = 300;
  config.data.workers = 1;
  config.data.repeats = 2;
  config.data.max_bad_images = 17;
  config.augment.preset = AugmentPreset::kLight;
  config.augment.mixup = 0.8;
  config.augment.repeats = 3;
  return config;
}

struct Epoch {
  std::vector<std::int64_t> indices;
  std::vector<std::string> names;  // names of the fields
};

Epoch read(OpenSplit& split) {
  Epoch epoch;
  DeviceBatch batch;
  split.feeder().start(0);
  while (split.feeder().next(batch)) {
    epoch.indices.insert(epoch.indices.end(), batch.indices.begin(), batch.indices.end());
    epoch.names.clear();
    for (const auto& [name, tensor] : batch.fields) epoch.names.push_back(name);
    EXPECT_EQ(batch.fields.at("image").shape(), (Shape{batch.n, 3, 6, 6}));
  }
  std::ranges::sort(epoch.names);
  return epoch;
}

TEST(OpenSplit, SingleSampleEqualsThatOfBatch) {
  const ExperimentConfig config = small_config();
  const auto split = open_split(config, Split::kVal, {.batch_size = 7});
  DeviceBatch batch;
  split->feeder().start(0);
  ASSERT_TRUE(split->feeder().next(batch));
  for (std::int64_t i = 0; i < batch.n; ++i) {
    const std::int64_t index = batch.indices[static_cast<std::size_t>(i)];
    const Fields sample = single_sample(split->source(), index, config.seed);
    EXPECT_TRUE(test::same_bits(sample.at("image"), batch.fields.at("image").slice(i, i + 1)));
    EXPECT_TRUE(test::same_bits(sample.at("label"), batch.fields.at("label").slice(i, i + 1)));
  }
}

// A source for a CUDA device carries pixels.
TEST(OpenSplit, SingleSampleOfPixelsIsImage) {
  const ExperimentConfig config = small_config();
  const std::shared_ptr<const Dataset> dataset =
      open_dataset(config.data, config.model, Split::kVal, config.seed);
  const Transform transform(config.data, {}, config.model.image_size, 3, false);
  const ImageSamples images(dataset, transform), pixels(dataset, transform, {.raw_pixels = true});
  ASSERT_TRUE(pixels.carries_pixels());
  EXPECT_TRUE(test::same_bits(single_sample(pixels, 3, 0).at("image"),
                              single_sample(images, 3, 0).at("image")));
}

// Tensors are no pixels: they keep their values, whatever the number of channels.
TEST(OpenSplit, TakesTensorsOfAnyNumberOfChannels) {
  const TempFolder dir;
  std::vector<float> values(8 * 5 * 6 * 6);
  std::iota(values.begin(), values.end(), 0.0f);
  const Tensor images = Tensor::from(values, {8, 5, 6, 6});
  const std::vector<std::int64_t> labels{0, 1, 2, 3, 4, 0, 1, 2};
  write_safetensors(dir.path() / "val.safetensors",
                    {{"images", images}, {"labels", Tensor::from(labels, {8})}});
  ExperimentConfig config = small_config();
  config.model.channels = 5;
  config.data.dataset = "tensors";
  config.data.root = dir.string();
  const auto split = open_split(config, Split::kVal, {.batch_size = 8});
  DeviceBatch batch;
  split->feeder().start(0);
  ASSERT_TRUE(split->feeder().next(batch));
  EXPECT_TRUE(test::same_bits(batch.fields.at("image"), images));
}

TEST(OpenSplit, ImagesHaveOneOrThreeChannels) {
  const TempFolder dir;
  dir.write("val/a/1.png", "no matter what");
  ExperimentConfig config = small_config();
  config.model.channels = 5;
  config.data.dataset = "imagefolder";
  config.data.root = dir.string();
  expect_error<ConfigError>([&] { open_split(config, Split::kVal, {.batch_size = 1}); },
                            {"model.channels is 5", "imagefolder", "tensors"});
}

TEST(OpenSplit, TrainingFollowsConfig) {
  ExperimentConfig config = small_config();
  const auto split = open_split(config, Split::kTrain, {.batch_size = 32});
  // A pass over 300 images has 256 samples, in copies of three; there are two passes.
  EXPECT_EQ(split->loader().batches_per_epoch(), 16);
  const Epoch epoch = read(*split);
  EXPECT_EQ(epoch.names,
            (std::vector<std::string>{"image", "label", "label_share", "partner_label"}));
  EXPECT_EQ(epoch.indices.size(), 512u);
  EXPECT_EQ(epoch.indices[0], epoch.indices[2]);
  EXPECT_EQ(epoch.indices[0], epoch_order(9, 0, 300, true)[0]);
  EXPECT_EQ(split->loader().options().max_bad_images, 17);
  config.data.shuffle = false;
  EXPECT_EQ(read(*open_split(config, Split::kTrain, {.batch_size = 32})).indices[3], 1);
}

TEST(OpenSplit, EvaluatesEachImageOnceInOrder) {
  const auto split = open_split(small_config(), Split::kVal, {.batch_size = 32});
  const Epoch epoch = read(*split);
  EXPECT_EQ(epoch.names, (std::vector<std::string>{"image", "label"}));
  std::vector<std::int64_t> all(static_cast<std::size_t>(split->source().size()));
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(epoch.indices, all);
}

TEST(OpenSplit, SplitsBatchesAcrossRanks) {
  for (Split which : {Split::kTrain, Split::kVal}) {
    const Epoch whole = read(*open_split(small_config(), which, {.batch_size = 10}));
    std::multiset<std::int64_t> parts;
    for (int rank = 0; rank < 3; ++rank) {
      const Epoch part =
          read(*open_split(small_config(), which, {.batch_size = 10, .rank = rank, .ranks = 3}));
      EXPECT_LT(part.indices.size(), whole.indices.size());
      parts.insert(part.indices.begin(), part.indices.end());
    }
    EXPECT_EQ(parts, std::multiset<std::int64_t>(whole.indices.begin(), whole.indices.end()));
  }
}

TEST(OpenSplit, ChecksConfigBeforeOpeningData) {
  ExperimentConfig config = small_config();
  config.data.dataset = "packed";
  config.data.root = "/nowhere";
  expect_error<DataError>([&] { open_split(config, Split::kTrain, {}); }, {"/nowhere"});
  config.data.crop_pct = 87.5;
  expect_error<ConfigError>([&] { open_split(config, Split::kTrain, {}); }, {"data.crop_pct"});
}

}  // namespace
}  // namespace dtn
