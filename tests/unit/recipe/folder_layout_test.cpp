// Layouts of folders of images that dtn-train finds by itself, and the configs that it writes.
#include "apps/recipe/folder_layout.h"

#include <gtest/gtest.h>

#include "apps/recipe/recipe_text.h"
#include "archives.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn::app {
namespace {

using test::expect_error;
namespace fs = std::filesystem;

class FolderLayouts : public ::testing::Test {
 protected:
  void images(const std::vector<std::string>& names) {
    for (const std::string& name : names) folder_.write(name, "picture");
  }
  FolderLayout found() const { return find_layout(folder_.path()); }
  void expect_rejected(const std::vector<std::string>& parts) const {
    expect_error<DataError>([&] { found(); }, parts);
  }

  test::TempFolder folder_;
};

TEST_F(FolderLayouts, ClassFolders) {
  images({"cat/1.jpg", "dog/1.jpg"});
  const FolderLayout layout = found();
  EXPECT_EQ(layout.task, "classify");
  EXPECT_EQ(layout.data.root, fs::canonical(folder_.path()).string());
  EXPECT_EQ(layout.data.split, 0.2);
  EXPECT_EQ(layout.data.train, std::nullopt);
  EXPECT_EQ(layout.data.labels, std::nullopt);
}

TEST_F(FolderLayouts, Splits) {
  images({"train/cat/1.jpg", "train/dog/1.jpg", "test/cat/1.jpg"});
  EXPECT_EQ(found().data.split, 0.2);
  test::expect_contains(found().notes.back(), "test is left for a last test");
  images({"validation/cat/1.jpg"});
  EXPECT_EQ(found().data.split, std::nullopt);
}

// They would be classes.
TEST_F(FolderLayouts, SplitsWithoutTrainAreRejected) {
  images({"cat/1.jpg", "dog/1.jpg", "Test/cat/1.jpg", "Test/dog/1.jpg"});
  expect_rejected({"/Test: has class folders of its own", "looks like a split", "/train/<class>/"});
}

TEST_F(FolderLayouts, ClassMayHaveTheNameOfASplit) {
  images({"test/1.jpg", "exam/1.jpg"});
  EXPECT_EQ(found().data.split, 0.2);
  EXPECT_EQ(found().notes.back().find("last test"), std::string::npos);
}

TEST_F(FolderLayouts, Table) {
  images({"1.jpg", "2.jpg"});
  folder_.write("names of files.csv", "path,label\n1.jpg,cat\n2.jpg,dog\n");
  const FolderLayout layout = found();
  EXPECT_EQ(layout.task, "classify");
  EXPECT_EQ(layout.data.labels, "names of files.csv");
  EXPECT_EQ(layout.data.split, 0.2);
  folder_.write("other.tsv", "x");
  expect_rejected({"several tables (names of files.csv, other.tsv)", "labels.csv"});
  folder_.write("labels.csv", "1.jpg,cat\n2.jpg,dog\n");
  EXPECT_EQ(found().data.labels, "labels.csv");
}

TEST_F(FolderLayouts, TableOfSeveralLabels) {
  images({"1.jpg", "2.jpg"});
  for (const char* table : {"1.jpg,cat;dog\n2.jpg,dog\n", "path,label\n1.jpg,cat\n2.jpg,\n",
                            "path,cat,dog\n1.jpg,1,1\n2.jpg,1,0\n"}) {
    folder_.write("labels.csv", table);
    EXPECT_EQ(found().task, "multilabel") << table;
  }
}

// Its paths begin beside the folder `train`, too.
TEST_F(FolderLayouts, TableBesideTrain) {
  images({"train/1.jpg", "train/2.jpg"});
  folder_.write("train.csv", "train/1.jpg,cat\ntrain/2.jpg,dog\n");
  EXPECT_EQ(found().data.train, ".");
  EXPECT_EQ(found().data.labels, "train.csv");
}

TEST_F(FolderLayouts, TableInTrain) {
  images({"train/1.jpg", "train/2.jpg", "val/1.jpg"});
  for (const char* split : {"train", "val"}) {
    folder_.write(cat(split, "/labels.csv"), "1.jpg,cat\n");
  }
  EXPECT_EQ(found().data.train, std::nullopt);
  EXPECT_EQ(found().data.split, std::nullopt);
}

// A table that is not about these images does not hide class folders, and one that is does.
TEST_F(FolderLayouts, TableBesideClassFolders) {
  images({"cat/1.jpg", "dog/1.jpg"});
  for (const char* table : {"name,price\ncat,3\n", "9.jpg,cat\n"}) {
    folder_.write("notes.csv", table);
    EXPECT_EQ(found().data.labels, std::nullopt) << table;
    test::expect_contains(found().notes[1], "notes.csv is not used");
  }
  folder_.write("notes.csv", "cat/1.jpg,animal\n");
  EXPECT_EQ(found().data.labels, "notes.csv");
}

TEST_F(FolderLayouts, Shards) {
  test::TarFile shard;
  shard.add("1.jpg", "picture").add("1.json", R"({"label": "cat"})");
  folder_.write("a-train-0.tar", shard.bytes());
  expect_rejected({"shards", "*val*.tar"});
  folder_.write("a-val-0.tar", shard.bytes());
  EXPECT_EQ(found().data.dataset, "webdataset");
  EXPECT_EQ(found().task, "classify");
  shard.add("2.jpg", "picture").add("2.json", R"({"label": ["cat", "dog"]})");
  folder_.write("a-train-0.tar", shard.bytes());
  EXPECT_EQ(found().task, "multilabel");
}

TEST_F(FolderLayouts, WithoutLabelsAreRejected) {
  images({"1.jpg"});
  expect_rejected({"neither class folders nor a table", "/cat/1.jpg", "labels.csv"});
  folder_.write("labels.csv", "1.jpg\n");
  expect_rejected({"labels.csv:1: ", "1 column"});
}

// --- recipe_text --------------------------------------------------------------------------------

ExperimentConfig config_of(const Recipe& recipe) {
  return parse_experiment(recipe_text(recipe), "recipe", {}, standard_registries().schemas());
}

TEST(Recipes, AreConfigs) {
  Recipe recipe;
  recipe.name = "my: \"photos\" #1";
  recipe.layout.data.root = "/data/it's: mine # here";
  recipe.layout.data.split = 0.2;
  recipe.classes = 3;
  recipe.balanced = true;
  recipe.micro_batch = 16;
  recipe.epochs = 61;
  const ExperimentConfig config = config_of(recipe);
  EXPECT_EQ(config.name, recipe.name);
  EXPECT_EQ(config.data.root, recipe.layout.data.root);
  EXPECT_EQ(config.data.split, 0.2);
  EXPECT_EQ(config.data.sampling, Sampling::kBalanced);
  EXPECT_EQ(config.data.resample, Resample::kPillow13);
  EXPECT_EQ(config.model.num_classes, 3);
  EXPECT_EQ(config.train.micro_batch, 16);
  EXPECT_EQ(config.schedule.epochs, 61);
}

TEST(Recipes, OfSeveralLabelsAreConfigs) {
  Recipe recipe;
  recipe.name = "tags";
  recipe.layout.task = "multilabel";
  recipe.layout.data.root = "photos";
  recipe.layout.data.labels = "labels.csv";
  recipe.layout.data.train = ".";
  recipe.classes = 3;
  const ExperimentConfig config = config_of(recipe);
  EXPECT_EQ(config.task, "multilabel");
  EXPECT_EQ(config.data.labels, "labels.csv");
  EXPECT_EQ(config.data.train, ".");
}

TEST(Recipes, OfWeightsAreConfigs) {
  Recipe recipe;
  recipe.name = "tuned";
  recipe.layout.data.root = "photos";
  recipe.classes = 3;
  recipe.start = StartingModel{.file = "/w/model.safetensors",
                               .section = "  preset: deit_tiny\n  image_size: 96\n",
                               .mean = {0.5, 0.25, 0.125},
                               .std = {0.5, 0.5, 0.5},
                               .crop_pct = 0.9,
                               .interpolation = "bilinear"};
  const ExperimentConfig config = config_of(recipe);
  EXPECT_EQ(config.model.preset, "deit_tiny");
  EXPECT_EQ(config.model.image_size.height, 96);
  EXPECT_EQ(config.model.init_weights, "/w/model.safetensors");
  EXPECT_EQ(config.data.mean, (std::vector<double>{0.5, 0.25, 0.125}));
  EXPECT_EQ(config.data.crop_pct, 0.9);
  EXPECT_EQ(config.optim.layer_decay, 0.7);
}

}  // namespace
}  // namespace dtn::app
