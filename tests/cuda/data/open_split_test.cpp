// Feeds a split of a config to the device and to the CPU: the same bits.
#include "data/feed/open_split.h"

#include "cuda/twin.h"

namespace dtn {
namespace {

using namespace dtn::test;

TEST(OpenSplitOnDevice, MatchesCpuBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  ExperimentConfig config;
  config.seed = 4;
  config.model.image_size = 10;
  config.model.channels = 3;
  config.model.num_classes = 5;
  config.data.dataset = "synthetic";
  config.data.size = 45;
  config.data.workers = 2;
  config.augment.preset = AugmentPreset::kLight;
  config.augment.erase = 0.5;
  config.augment.mixup = config.augment.cutmix = 1;
  for (Split which : {Split::kTrain, Split::kVal}) {
    const auto on_host = open_split(config, which, {.batch_size = 7});
    const auto on_device = open_split(config, which, {.device = kCuda, .batch_size = 7});
    EXPECT_EQ(on_host->source().host_fields()[0].name, "image");
    EXPECT_EQ(on_device->source().host_fields()[0].name, "pixels");
    on_host->feeder().start(1);
    on_device->feeder().start(1);
    DeviceBatch want, got;
    int batches = 0;
    while (on_host->feeder().next(want)) {
      ASSERT_TRUE(on_device->feeder().next(got));
      ++batches;
      EXPECT_EQ(got.indices, want.indices);
      for (const auto& [name, tensor] : want.fields) {
        EXPECT_TRUE(same_bits(got.fields.at(name).to(kCpu), tensor)) << name;
      }
      EXPECT_EQ(want.fields.has("partner_label"), which == Split::kTrain);
    }
    EXPECT_FALSE(on_device->feeder().next(got));
    EXPECT_EQ(batches, which == Split::kTrain ? 6 : 7);
  }
}

}  // namespace
}  // namespace dtn
