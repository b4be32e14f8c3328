#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

class ClassFolders : public testing::Test {
 protected:
  void image(const std::string& name) {
    write_bytes(dir.path() / name, bmp_file(5, 4, noise(60, 1)));
  }
  TempFolder dir;
};

TEST_F(ClassFolders, LabelsFollowGivenList) {
  for (const char* name : {"d/1.bmp", "b/2.bmp", "b/10.bmp"}) image(name);
  auto set = open_class_folders(dir.string(), {"d", "a", "b", "c"});
  EXPECT_EQ(set->num_classes(), 4);
  EXPECT_EQ(set->class_names().size(), 4u);
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->sample_name(0), dir.string() + "/b/10.bmp");
  EXPECT_EQ(set->label(0), 2);
  EXPECT_EQ(set->label(1), 2);
  EXPECT_EQ(set->sample_name(2), dir.string() + "/d/1.bmp");
  EXPECT_EQ(set->label(2), 0);
  EXPECT_EQ(class_folders_of(dir.string()), (std::vector<std::string>{"b", "d"}));
}

TEST_F(ClassFolders, ErrorsNameInvalidFolders) {
  const auto open = [&] { open_class_folders(dir.string(), {"a", "b"}); };
  expect_error<DataError>(open, {dir.string(), "no class folders"});
  image("stray.bmp");
  expect_error<DataError>(open, {"no class folders"});
  image("c/1.bmp");
  expect_error<DataError>(open, {dir.string() + "/c", "not among the 2 classes of the model"});
  fs::rename(dir.path() / "c", dir.path() / "a");
  fs::create_directory(dir.path() / "b");
  expect_error<DataError>(open, {"/b", "no images"});
  expect_error<DataError>([&] { class_folders_of(dir.string() + "/a/1.bmp"); }, {"not a folder"});
  expect_error<DataError>([&] { class_folders_of(dir.string() + "/x"); }, {"no such folder"});
}

TEST_F(ClassFolders, SelectsNamedClasses) {
  for (const char* name : {"a/1.bmp", "b/1.bmp", "c/1.bmp", "c/2.bmp"}) image(name);
  std::shared_ptr<const Dataset> all = open_class_folders(dir.string(), {"a", "b", "c"});
  const std::vector<std::string> classes = {"c", "x", "b", "a"};
  const std::vector<std::int64_t> wanted = {0, 1, 3};
  auto some = only_classes(all, classes, wanted);
  ASSERT_EQ(some->size(), 3);
  EXPECT_EQ(some->sample_name(0), dir.string() + "/a/1.bmp");
  EXPECT_EQ(some->label(0), 3);
  EXPECT_EQ(some->sample_name(2), dir.string() + "/c/2.bmp");
  EXPECT_EQ(some->label(2), 0);
  EXPECT_EQ(some->class_names(), classes);
  EXPECT_EQ(only_classes(all, classes, {})->size(), 0);
}

TEST_F(ClassFolders, SelectsClassesOfUnnamedDataset) {
  DataConfig data;
  data.dataset = "synthetic";
  data.size = 12;
  ModelConfig model;
  model.num_classes = 4;
  model.image_size = 4;
  std::shared_ptr<const Dataset> all = open_dataset(data, model, Split::kVal, 0);
  const std::vector<std::int64_t> wanted = {1, 4};
  auto some = only_classes(all, {"a", "b", "c", "d", "e"}, wanted);
  ASSERT_EQ(some->size(), 3);
  EXPECT_EQ(some->label(2), 1);
  EXPECT_EQ(some->sample_name(2), all->sample_name(9));
}

TEST(ImageNetClasses, MatchIlsvrc) {
  const std::vector<std::string>& names = imagenet_class_names();
  ASSERT_EQ(names.size(), 1000u);
  EXPECT_EQ(names.front(), "n01440764");  // tench
  EXPECT_EQ(names[281], "n02123045");     // tabby
  EXPECT_EQ(names.back(), "n15075141");   // toilet tissue
  EXPECT_EQ(std::ranges::adjacent_find(names, std::greater_equal<>()), names.end());
}

TEST(ImageNetClasses, HaveUniqueShortNames) {
  const std::vector<std::string>& words = imagenet_class_words();
  ASSERT_EQ(words.size(), imagenet_class_names().size());
  EXPECT_EQ(words.front(), "tench");
  EXPECT_EQ(words[134], "crane (bird)");
  EXPECT_EQ(words[281], "tabby");
  EXPECT_EQ(words[517], "crane (machine)");
  EXPECT_EQ(words.back(), "toilet tissue");
  EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), words.size());
  EXPECT_EQ(std::ranges::count(words, ""), 0);
}

}  // namespace
}  // namespace dtn
