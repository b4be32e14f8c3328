// Configs whose data do not suit the task translate, and the opening of its data sets.
#include "tasks/translate/data_checks.h"

#include "dtn/data/dataset_registry.h"
#include "dtn/data/datasets.h"
#include "tasks/translate/pair_source.h"
#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

// Expects a problem whose message contains all of `parts`; opening the data gives it, too.
void expect_problem(const ExperimentConfig& config, const std::vector<std::string>& parts) {
  const auto problem = translate_data_problem(config);
  ASSERT_TRUE(problem.has_value()) << parts.front();
  EXPECT_FALSE(problem->keys.empty());
  for (const std::string& part : parts) expect_contains(problem->message, part);
  expect_error<ConfigError>([&] { translate_source(config, dataset_registry(), Split::kTrain); },
                            parts);
}

ExperimentConfig corrupting() {
  ExperimentConfig config = pair_config(32);
  config.data.dataset = "synthetic";
  config.data.size = 6;
  config.data.corruptions = {"fog/1-5", "gaussian_noise/3"};
  return config;
}

TEST(TranslateData, OpensImagesOfAnyDataSet) {
  const ExperimentConfig config = corrupting();
  EXPECT_FALSE(translate_data_problem(config));
  const auto train = translate_source(config, dataset_registry(), Split::kTrain);
  const auto val = translate_source(config, dataset_registry(), Split::kVal);
  EXPECT_EQ(train->size(), 6);
  expect_contains(train->description(), "input by fog/1-5, gaussian_noise/3");
  const auto images = open_unlabelled(config.data, config.model, Split::kVal, config.seed);
  SampleWorkspace workspace;
  EXPECT_EQ(PairRow(*val, 4).floats("target"), unit_pixels(*images->load(4, workspace).image));
}

TEST(TranslateData, OpensFoldersWithAndWithoutClasses) {
  TempFolder folder;
  ExperimentConfig config = corrupting();
  config.data = {};
  config.data.corruptions = {"contrast/2"};
  config.data.root = folder.string();
  for (const char* file : {"train/a.bmp", "val/a/1.bmp", "val/b/2.bmp"}) {
    write_bytes(folder.path() / file, bmp_file(32, 32, noise(3072, 1)));
  }
  EXPECT_EQ(translate_source(config, dataset_registry(), Split::kTrain)->size(), 1);
  EXPECT_EQ(translate_source(config, dataset_registry(), Split::kVal)->size(), 2);
}

TEST(TranslateData, CorruptionsSuitDataSetAndModel) {
  ExperimentConfig config = corrupting();
  config.data.corruptions.clear();
  EXPECT_TRUE(translate_data_problem(config)) << "synthetic pairs are for programs alone";
  config.data.dataset = "cifar10";
  expect_problem(config, {"data.dataset cifar10", "data.corruptions", "pairs, drawn or tensors"});
  config.data.corruptions = {"foog/1"};
  expect_problem(config, {"`foog/1`", "did you mean 'fog'?"});
  for (const char* dataset : {"pairs", "drawn", "tensors"}) {
    config.data.dataset = dataset;
    expect_problem(config,
                   {"data.dataset " + std::string(dataset), "data.corruptions", "unset it"});
  }
  config = corrupting();
  config.model.channels = 4;
  expect_problem(config, {"model.channels is 4", "1 or 3"});
  config.model.channels = 3;
  config.model.out_channels = 1;
  expect_problem(config, {"model.out_channels is 1"});
}

TEST(TranslateData, ConditionsSuitCorruptions) {
  ExperimentConfig config = corrupting();
  config.model.condition.from = ConditionFrom::kIndex;
  config.model.condition.styles = 5;
  expect_problem(config, {"model.condition.styles is 5", "set it to 6"});
  config.model.condition.styles = 6;
  EXPECT_FALSE(translate_data_problem(config));
  config.model.condition.from = ConditionFrom::kImage;
  EXPECT_FALSE(translate_data_problem(config));
  config.model.condition.from = ConditionFrom::kVector;
  expect_problem(config, {"model.condition.from is vector", "index", "image"});
  config.model.condition = {};
  config.model.norm.type = "spade";
  expect_problem(config, {"`map`", "synthetic", "tensors"});
}

TEST(TranslateData, PicturesAreOnlyCroppedAndMirrored) {
  ExperimentConfig config = corrupting();
  config.augment.preset = AugmentPreset::kLight;
  EXPECT_FALSE(translate_data_problem(config));
  config.augment.preset = AugmentPreset::kDeit;
  expect_problem(config, {"augment.preset", "none", "light"});
  config.augment = {};
  config.augment.color_jitter = 0.1;
  expect_problem(config, {"crops and mirrors"});
  config.augment = {};
  config.augment.mixup = 0.1;
  expect_problem(config, {"crops and mirrors"});
}

TEST(TranslateData, PairsHaveNoConditions) {
  ExperimentConfig config = pair_config(32);
  config.data.dataset = "pairs";
  EXPECT_FALSE(translate_data_problem(config));
  config.model.out_channels = 2;
  expect_problem(config, {"model.out_channels is 2", "pairs"});
  config.model.out_channels = 1;
  config.model.condition.from = ConditionFrom::kIndex;
  expect_problem(config, {"model.condition.from", "pairs"});
  config.model.condition = {};
  config.model.decoder_norm.emplace().type = "spade";
  expect_problem(config, {"`map`", "pairs"});
}

TEST(TranslateData, DrawnPicturesHaveOneForm) {
  ExperimentConfig config = pair_config(32, 4);
  config.data.dataset = "drawn";
  config.model.out_channels = 3;
  EXPECT_FALSE(translate_data_problem(config));
  config.model.image_size = 64;
  expect_problem(config, {"32 x 32", "model.image_size is 64 x 64"});
  config.model.image_size = 32;
  config.model.channels = 3;
  expect_problem(config, {"model.channels: 4", "model.out_channels: 3", "3 and 3"});
  config.model.channels = 4;
  config.model.norm.type = "spade";
  config.model.condition.size = 8;
  expect_problem(config, {"model.condition.size: 4"});
  config.model.condition.size = 4;
  EXPECT_FALSE(translate_data_problem(config));
  config.model.condition.from = ConditionFrom::kVector;
  expect_problem(config, {"data.drawn: map", "model.condition.from"});
  config = pair_config(32, 3);
  config.data.dataset = "drawn";
  config.data.drawn = DrawnTask::kQuestion;
  expect_problem(config, {"model.out_channels: 1"});
  config.model.out_channels = 1;
  EXPECT_FALSE(translate_data_problem(config));
  config.model.condition.from = ConditionFrom::kVector;
  config.model.condition.size = 8;
  expect_problem(config, {"model.condition.size: 7"});
  config.model.condition.size = 7;
  EXPECT_FALSE(translate_data_problem(config));
  config.model.norm.type = "spade";
  expect_problem(config, {"`map`", "drawn"});
}

TEST(TranslateData, OtherTasksRefusePairs) {
  for (const char* dataset : {"pairs", "drawn"}) {
    DataConfig data;
    data.dataset = dataset;
    expect_error<ConfigError>([&] { open_dataset(data, {}, Split::kTrain, 0); },
                              {cat("data.dataset ", dataset), "task: translate"});
  }
}

}  // namespace
}  // namespace dtn::test
