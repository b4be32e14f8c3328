// data.classes: a subset of the classes of any data set.
#include <gtest/gtest.h>

#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;

class Classes : public testing::Test {
 protected:
  Classes() {
    data.dataset = "synthetic";
    data.size = 20;
    model.num_classes = 2;
    model.image_size = 4;
  }
  std::unique_ptr<Dataset> open() { return open_dataset(data, model, Split::kTrain, 3); }

  DataConfig data;
  ModelConfig model;
};

TEST_F(Classes, AreNumberedInListedOrder) {
  data.classes = {4, 1};
  const auto some = open();
  EXPECT_EQ(some->num_classes(), 2);
  ASSERT_EQ(some->size(), 8) << "of 20 images of the classes 0 to 4";
  data.classes.clear();
  model.num_classes = 5;
  const auto all = open();
  SampleWorkspace a, b;
  std::int64_t i = 0;
  for (std::int64_t k = 0; k < all->size(); ++k) {
    if (all->label(k) != 4 && all->label(k) != 1) continue;
    ASSERT_LT(i, some->size());
    EXPECT_EQ(some->label(i), all->label(k) == 4 ? 0 : 1);
    EXPECT_EQ(some->sample_name(i), all->sample_name(k));
    EXPECT_EQ(some->item_name(i), all->item_name(k));
    some->load(i, a);
    all->load(k, b);
    EXPECT_EQ(a.image.pixels, b.image.pixels);
    ++i;
  }
}

TEST_F(Classes, KeepFolderNames) {
  TempFolder dir;
  for (const char* name : {"train/a/1.bmp", "train/b/1.bmp", "train/c/1.bmp", "train/c/2.bmp"}) {
    write_bytes(dir.path() / name, bmp_file(5, 4, noise(60, 1)));
  }
  data.dataset = "imagefolder";
  data.root = dir.string();
  data.classes = {2, 0};
  const auto some = open();
  ASSERT_EQ(some->size(), 3);
  EXPECT_EQ(some->class_names(), (std::vector<std::string>{"c", "a"}));
  EXPECT_EQ(some->label(0), 1);
  EXPECT_EQ(some->item_name(0), "a/1.bmp");
  EXPECT_EQ(some->label(2), 0);
  EXPECT_NE(some->description().find("3 images of 2 classes"), std::string::npos)
      << some->description();
  model.num_classes = 0;  // a model without a head
  EXPECT_EQ(open()->size(), 3);
}

TEST_F(Classes, MustExistAndMatchModel) {
  TempFolder dir;
  for (const char* name : {"train/a/1.bmp", "train/b/1.bmp"}) {
    write_bytes(dir.path() / name, bmp_file(5, 4, noise(60, 1)));
  }
  data.dataset = "imagefolder";
  data.root = dir.string();
  data.classes = {0, 2};
  expect_error<DataError>([&] { open(); }, {"data.classes", "no class 2", "0 to 1", dir.string()});
  data.classes = {0, 1};
  model.num_classes = 1;
  expect_error<DataError>([&] { open(); }, {"data.classes", "2 classes", "num_classes is 1"});
}

}  // namespace
}  // namespace dtn
