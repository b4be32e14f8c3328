// data.label_sets, and the condition of images.
#include "data/classes/label_sets.h"

#include "data/feed/open_split.h"
#include "data/feed/single_sample.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

class LabelSetsTest : public testing::Test {
 protected:
  LabelSetsTest() {
    config.data.dataset = "synthetic";
    config.data.size = 8;
    config.data.label_sets = {{"article", {}}, {"kind", {"top", "shoe", "top", "bag"}}};
    config.model.num_classes = 7;
    config.model.image_size = 4;
    config.model.condition.from = ConditionFrom::kIndex;
    config.model.condition.styles = 2;
  }
  std::shared_ptr<const Dataset> open() {
    return open_dataset(config.data, config.model, Split::kTrain, 3);
  }
  std::shared_ptr<const ImageSamples> samples() {
    return open_image_samples(config, Split::kTrain, kCpu);
  }

  ExperimentConfig config;
};

TEST_F(LabelSetsTest, GiveEachImageALabelInEachSet) {
  const auto sets = open();
  config.data.label_sets.clear();
  config.model.num_classes = 4;
  config.model.condition = {};
  const auto plain = open();
  EXPECT_EQ(sets->num_classes(), 7);
  ASSERT_EQ(sets->size(), 2 * plain->size());
  const std::int64_t kinds[] = {4, 5, 4, 6};
  const Tensor& style = sets->ready_fields().at("style");
  SampleWorkspace a, b;
  for (std::int64_t i = 0; i < sets->size(); ++i) {
    const std::int64_t label = plain->label(i / 2);
    EXPECT_EQ(style.data<std::int64_t>()[i], i % 2);
    EXPECT_EQ(sets->label(i), i % 2 == 0 ? label : kinds[label]) << i;
    sets->load(i, a);
    plain->load(i / 2, b);
    EXPECT_EQ(a.image.pixels, b.image.pixels);
  }
  EXPECT_EQ(sets->class_names(),
            (std::vector<std::string>{"article/0", "article/1", "article/2", "article/3",
                                      "kind/top", "kind/shoe", "kind/bag"}));
  EXPECT_NE(sets->item_name(0), sets->item_name(1));
  EXPECT_NE(sets->description().find("in 2 label sets"), std::string::npos);
}

TEST_F(LabelSetsTest, ReachTheBatch) {
  const auto source = samples();
  const Fields sample = single_sample(*source, 3, 0);
  EXPECT_EQ(sample.at("style").data<std::int64_t>()[0], 1);
  EXPECT_EQ(sample.at("label").data<std::int64_t>()[0], 5) << "image 1 has the kind shoe";
}

TEST_F(LabelSetsTest, UseClassNamesOfFolders) {
  TempFolder dir;
  for (const char* name : {"train/coat/1.bmp", "train/boot/1.bmp", "train/cap/1.bmp"}) {
    write_bytes(dir.path() / name, bmp_file(5, 4, noise(60, 1)));
  }
  config.data.dataset = "imagefolder";
  config.data.root = dir.string();
  config.data.label_sets = {{"kind", {"worn", "held", "worn"}}, {"article", {}}};
  config.model.num_classes = 0;
  EXPECT_EQ(open()->class_names(),
            (std::vector<std::string>{"kind/worn", "kind/held", "article/boot", "article/cap",
                                      "article/coat"}));
  config.data.classes = {2, 0};  // coat, boot
  config.data.label_sets = {{"kind", {"warm", "hard"}}};
  const auto chosen = open();
  EXPECT_EQ(chosen->class_names(), (std::vector<std::string>{"kind/warm", "kind/hard"}));
  EXPECT_EQ(chosen->label(0), 1) << "boot comes first in the folder";
}

TEST_F(LabelSetsTest, MustFitTheDataSet) {
  config.model.num_classes = 5;
  expect_error<DataError>([&] { open(); }, {"data.label_sets", "7 classes", "num_classes is 5"});
  TempFolder dir;
  for (const char* name : {"train/a/1.bmp", "train/b/1.bmp", "train/c/1.bmp"}) {
    write_bytes(dir.path() / name, bmp_file(5, 4, noise(60, 1)));
  }
  config.data.dataset = "imagefolder";
  config.data.root = dir.string();
  config.model.num_classes = 0;
  expect_error<DataError>([&] { open(); }, {"names 4 classes", "has 3", dir.string()});
  config.data.label_sets = {{"a", {"x", "y"}}, {"b", {"x"}}};
  expect_error<ConfigError>([&] { open(); }, {"'a' names 2 classes", "'b' names 1"});
}

TEST(LabelRanges, FollowOneAnother) {
  const std::vector<LabelSet> sets = {{"a", {}}, {"b", {"x", "y", "x"}}, {"c", {}}};
  EXPECT_EQ(classes_before(sets, 8), 3);
  const std::vector<LabelRange> ranges = label_ranges(sets, 3);
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[1].first, 3);
  EXPECT_EQ(ranges[1].count, 2);
  EXPECT_EQ(ranges[2].first, 5);
  EXPECT_EQ(ranges[2].count, 3);
  const std::vector<LabelSet> unchanged = {{"a", {}}, {"b", {}}};
  EXPECT_EQ(classes_before(unchanged, 8), 4);
}

// --- the condition of images without label sets -------------------------------------------------

TEST_F(LabelSetsTest, SyntheticImagesHaveEveryStyleOfEveryClass) {
  config.data.label_sets.clear();
  config.model.num_classes = 4;
  const auto images = open();
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < images->size(); ++i) {
    pairs.insert({images->label(i), images->ready_fields().at("style").data<std::int64_t>()[i]});
  }
  EXPECT_EQ(pairs.size(), 8U);
  config.model.condition = {.from = ConditionFrom::kVector, .size = 3};
  EXPECT_EQ(open()->ready_fields().at("vector").shape(), Shape({8, 3}));
}

class GivenConditions : public LabelSetsTest {
 protected:
  GivenConditions() {
    config.data.label_sets.clear();
    config.data.dataset = "tensors";
    config.data.root = dir.string();
    config.model.num_classes = 4;
  }
  void write(const char* name, const Tensor& values) {
    write_safetensors(dir.path() / "train.safetensors",
                      {{"images", Tensor::zeros({2, 3, 4, 4}, DType::kFloat32)},
                       {"labels", Tensor::zeros({2}, DType::kInt64)},
                       {name, values}});
  }

  TempFolder dir;
};

TEST_F(GivenConditions, ReachTheBatch) {
  write("style", Tensor::from(std::vector<std::int64_t>{1, 0}, {2}));
  EXPECT_EQ(single_sample(*samples(), 0, 0).at("style").data<std::int64_t>()[0], 1);
  config.model.condition = {.from = ConditionFrom::kVector, .size = 3};
  write("vector", Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}));
  const Tensor vector = single_sample(*samples(), 1, 0).at("vector");
  EXPECT_EQ(vector.shape(), Shape({1, 3}));
  EXPECT_EQ(vector.data<float>()[2], 6);
}

TEST_F(GivenConditions, MustFitTheModel) {
  write("other", Tensor::zeros({2}, DType::kInt64));
  expect_error<DataError>([&] { samples(); }, {"`style`", "model.condition.from", "label_sets"});
  write("style", Tensor::from(std::vector<std::int64_t>{1, 2}, {2}));
  expect_error<DataError>([&] { samples(); }, {"`style` 2 at index 1", "[0, 2)"});
  write("style", Tensor::zeros({3}, DType::kInt64));
  expect_error<DataError>([&] { samples(); }, {"`style`", "[3]", "[2]"});
  config.model.condition = {.from = ConditionFrom::kVector, .size = 3};
  write("vector", Tensor::zeros({2, 4}, DType::kFloat32));
  expect_error<DataError>([&] { samples(); }, {"`vector`", "[2, 4]", "[2, 3]"});
  write("vector", Tensor::zeros({2, 3}, DType::kInt64));
  expect_error<DataError>([&] { samples(); }, {"`vector`", "int64", "float32"});
  write("vector", Tensor::zeros({2, 3}, DType::kFloat32));
  config.data.label_sets = {{"a", {}}};
  expect_error<ConfigError>([&] { samples(); }, {"data.label_sets", "`vector`"});
}

}  // namespace
}  // namespace dtn
