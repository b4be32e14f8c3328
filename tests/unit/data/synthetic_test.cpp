#include <algorithm>

#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;

class SyntheticTest : public testing::Test {
 protected:
  SyntheticTest() {
    data.dataset = "synthetic";
    model.image_size = 16;
    model.num_classes = 10;
  }
  std::unique_ptr<Dataset> open(Split split, std::uint64_t seed = 1) {
    return open_dataset(data, model, split, seed);
  }
  static Bytes pixels(const Dataset& set, std::int64_t index) {
    SampleWorkspace workspace;
    return set.load(index, workspace).image->pixels;
  }
  DataConfig data;
  ModelConfig model;
};

TEST_F(SyntheticTest, HasShapeOfModelAndConfiguredSize) {
  EXPECT_EQ(open(Split::kTrain)->size(), 1024);
  EXPECT_EQ(open(Split::kVal)->size(), 256);
  data.size = 7;
  EXPECT_EQ(open(Split::kTrain)->size(), 7);
  model.channels = 1;
  SampleWorkspace workspace;
  auto set = open(Split::kVal);
  Sample sample = set->load(6, workspace);
  EXPECT_EQ(sample.image->width, 16);
  EXPECT_EQ(sample.image->channels, 1);
  EXPECT_EQ(sample.image->pixels.size(), 256u);
}

TEST_F(SyntheticTest, DependsOnSeedSplitAndIndexOnly) {
  auto a = open(Split::kTrain), b = open(Split::kTrain);
  EXPECT_EQ(pixels(*a, 5), pixels(*b, 5));
  EXPECT_NE(pixels(*a, 5), pixels(*a, 15));
  EXPECT_NE(pixels(*a, 5), pixels(*open(Split::kVal), 5));
  EXPECT_NE(pixels(*a, 5), pixels(*open(Split::kTrain, 2), 5));
}

TEST_F(SyntheticTest, ClassesAreBalanced) {
  auto set = open(Split::kTrain);
  std::vector<int> count(10);
  for (std::int64_t i = 0; i < set->size(); ++i) ++count[static_cast<std::size_t>(set->label(i))];
  auto [least, most] = std::ranges::minmax(count);
  EXPECT_LE(most - least, 1);
}

// The class means of the training split must classify the other split.
TEST_F(SyntheticTest, ClassesAreSeparable) {
  model.num_classes = 100;
  auto train = open(Split::kTrain), val = open(Split::kVal);
  std::vector<std::vector<double>> means(100, std::vector<double>(16 * 16 * 3));
  for (std::int64_t i = 0; i < 1000; ++i) {
    Bytes p = pixels(*train, i);
    for (std::size_t j = 0; j < p.size(); ++j)
      means[static_cast<std::size_t>(i % 100)][j] += p[j] / 10.0;
  }
  int right = 0;
  for (std::int64_t i = 0; i < val->size(); ++i) {
    Bytes p = pixels(*val, i);
    std::vector<double> distance(100);
    for (std::size_t k = 0; k < 100; ++k) {
      for (std::size_t j = 0; j < p.size(); ++j) {
        distance[k] += (p[j] - means[k][j]) * (p[j] - means[k][j]);
      }
    }
    auto best = std::ranges::min_element(distance) - distance.begin();
    right += best == val->label(i);
  }
  EXPECT_GT(right, 250);  // of 256
}

TEST_F(SyntheticTest, RejectsInvalidConfigs) {
  model.channels = 4;
  expect_error<ConfigError>([&] { open(Split::kTrain); }, {"model.channels is 4"});
  model.channels = 3;
  data.size = 0;
  expect_error<ConfigError>([&] { open(Split::kTrain); }, {"data.size"});
}

}  // namespace
}  // namespace dtn
