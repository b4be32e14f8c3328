// The config of weights, with overrides for the data that they are used on.
#include "apps/common/weights_source.h"

#include <gtest/gtest.h>

#include "dtn/tasks/registries.h"

namespace dtn::app {
namespace {

using Values = std::vector<double>;

DataConfig data_with(const std::vector<std::string>& overrides) {
  TensorFile weights;
  weights.metadata["config"] =
      "model: {preset: vit_t, image_size: 32, patch_size: 4, channels: 1}\n"
      "data: {dataset: idx, root: /data/mnist}\n";
  WeightsOptions options;
  options.checkpoint = "a";
  options.overrides = overrides;
  return options.config_of(weights, standard_registries().schemas()).data;
}

// The usual statistics of a data set follow its name and folder, but a model needs those that it
// was trained with.
TEST(ConfigOfWeights, KeepsTheStatisticsOfTheTraining) {
  for (const char* other : {"data.root=/scratch/copy", "data.dataset=packed", "data.dataset=idx"}) {
    EXPECT_EQ(data_with({other}).mean, Values{0.1307}) << other;
    EXPECT_EQ(data_with({other}).std, Values{0.3081}) << other;
  }
  EXPECT_EQ(data_with({}).mean, Values{}) << "those of the same data set";
}

TEST(ConfigOfWeights, TakesGivenStatistics) {
  EXPECT_EQ(data_with({"data.root=/b", "data.mean=0.4", "data.std=0.2"}).mean, Values{0.4});
  EXPECT_EQ(data_with({"data.root=/b", "data.mean=null"}).mean, Values{});
}

TEST(ConfigOfWeights, TensorsStayUnchanged) {
  EXPECT_EQ(data_with({"data.dataset=tensors", "data.train=a", "data.val=b"}).mean, Values{});
}

}  // namespace
}  // namespace dtn::app
