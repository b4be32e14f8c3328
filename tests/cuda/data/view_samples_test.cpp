// Feeds views to the device as pixels, and to the CPU as floats: the same bits.
#include "data/feed/view_samples.h"

#include "cuda/twin.h"
#include "data/feed/open_split.h"
#include "dtn/config/load.h"

namespace dtn {
namespace {

using namespace dtn::test;

TEST(ViewsOnDevice, MatchCpuBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const AugmentPreset preset : {AugmentPreset::kDino, AugmentPreset::kSupcon}) {
    ExperimentConfig config;
    config.seed = 4;
    config.model.image_size = 12;
    config.model.channels = 3;
    config.model.num_classes = 5;
    config.data.dataset = "synthetic";
    config.data.size = 17;
    config.data.workers = 2;
    config.dino.local_crops = 3;
    config.dino.local_size = 5;
    config.augment = augment_preset(preset);
    const auto host = open_view_samples(config, kCpu), device = open_view_samples(config, kCuda);
    EXPECT_TRUE(device->carries_pixels());
    const auto on_host = open_split(host, config, Split::kTrain, {.batch_size = 4});
    const auto on_device =
        open_split(device, config, Split::kTrain, {.device = kCuda, .batch_size = 4});
    on_host->feeder().start(1);
    on_device->feeder().start(1);
    DeviceBatch want, got;
    int batches = 0;
    for (; on_host->feeder().next(want); ++batches) {
      ASSERT_TRUE(on_device->feeder().next(got));
      EXPECT_EQ(got.indices, want.indices);
      for (const FieldSpec& spec : host->device_fields()) {
        EXPECT_TRUE(same_bits(got.fields.at(spec.name).to(kCpu), want.fields.at(spec.name)))
            << spec.name;
      }
    }
    EXPECT_FALSE(on_device->feeder().next(got));
    EXPECT_EQ(batches, 4);
  }
}

}  // namespace
}  // namespace dtn
