// Labels of samples with any number of classes, moved to the classes of a model.
#include "data/classes/label_columns.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn::test {
namespace {

class LabelColumns : public ::testing::Test {
 protected:
  LabelColumns() {
    for (const char* split : {"train", "val"}) {
      for (const char* name : {"1.png", "2.png", "3.png"}) write(cat(split, "/", name), "picture");
    }
    write("train/l.csv", "1.png,dog\n2.png,cat;dog\n3.png,\n");
    write("val/l.csv", "1.png,cat\n2.png,\n3.png,dog\n");
    data_.dataset = "imagefolder";
    data_.root = folder_.path().string();
    data_.labels = "l.csv";
  }

  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }
  std::vector<int> labels_for(Split split, const ClassList& classes) {
    const auto dataset = open_multilabel_for(data_, {}, split, 0, dataset_registry(), classes);
    EXPECT_EQ(dataset->num_classes(), classes.count);
    const auto values = dataset->ready_fields().at("labels").values<std::uint8_t>();
    return {values.begin(), values.end()};
  }

  TempFolder folder_;
  DataConfig data_;
};

TEST_F(LabelColumns, HaveOrderOfModel) {
  EXPECT_EQ(labels_for(Split::kTrain, {"the model", {"cat", "dog"}, 2}),
            (std::vector<int>{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(labels_for(Split::kTrain, {"the model", {"dog", "ape", "cat"}, 3}),
            (std::vector<int>{1, 0, 0, 1, 0, 1, 0, 0, 0}));
}

// The table of the training split decides the classes.
TEST_F(LabelColumns, OfValidationSplitAreThoseOfTraining) {
  write("val/l.csv", "1.png,dog\n2.png,\n3.png,dog\n");
  ModelConfig any;
  any.num_classes = 0;
  const auto dataset = open_multilabel(data_, any, Split::kVal, 0);
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"cat", "dog"}));
  const auto values = dataset->ready_fields().at("labels").values<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(values.begin(), values.end()), (std::vector<int>{0, 1, 0, 0, 0, 1}));
  EXPECT_FALSE(dataset->has_labels());
}

TEST_F(LabelColumns, AreRejectedForUnknownClass) {
  expect_error<DataError>(
      [&] {
        labels_for(Split::kTrain, {"the model", {"cat", "ape"}, 2});
      },
      {"'dog' is not among the 2 classes", "the model"});
  write("val/l.csv", "1.png,cat;fish\n2.png,\n3.png,dog\n");
  expect_error<DataError>(
      [&] {
        labels_for(Split::kVal, {"the model", {"cat", "dog"}, 2});
      },
      {"val/l.csv:1: ", "'fish' is not among the 2 classes"});
}

TEST_F(LabelColumns, NeedNumberOfClassesOfModel) {
  ModelConfig three;
  three.num_classes = 3;
  expect_error<DataError>([&] { open_multilabel(data_, three, Split::kTrain, 0); },
                          {"has 2 classes, but model.num_classes is 3; set it to 2"});
  EXPECT_EQ(count_multilabel_classes(data_, {}, 0, dataset_registry()), 2);
}

TEST_F(LabelColumns, NeedTable) {
  data_.labels.reset();
  expect_error<ConfigError>([&] { open_multilabel(data_, {}, Split::kTrain, 0); },
                            {"set data.labels"});
  data_.dataset = "synthetic";
  expect_error<ConfigError>(
      [&] { open_multilabel(data_, {}, Split::kTrain, 0); },
      {"data.dataset synthetic has one class", "imagefolder, webdataset, packed or tensors"});
}

// The held-out images keep their labels.
TEST_F(LabelColumns, AreDividedWithImages) {
  std::filesystem::remove_all(folder_.path() / "val");
  std::string table;
  for (int i = 0; i < 40; ++i) {
    write(cat("train/", i, ".png"), "picture");
    table += cat(i, ".png,", i % 2 ? "odd" : "even", i % 3 ? "" : ";third", "\n");
  }
  write("train/l.csv", table);
  data_.split = 0.25;
  ModelConfig any;
  any.num_classes = 0;
  std::int64_t count = 0;
  for (const Split split : {Split::kTrain, Split::kVal}) {
    const auto dataset = open_multilabel(data_, any, split, 3);
    const Tensor& labels = dataset->ready_fields().at("labels");
    ASSERT_EQ(labels.shape(), (Shape{dataset->size(), 3}));
    for (std::int64_t i = 0; i < dataset->size(); ++i) {
      const int number = std::stoi(dataset->item_name(i));
      const std::uint8_t* row = labels.data<std::uint8_t>() + 3 * i;
      EXPECT_EQ(row[0], number % 2 == 0);
      EXPECT_EQ(row[1], number % 2);
      EXPECT_EQ(row[2], number % 3 == 0);
    }
    count += dataset->size();
  }
  EXPECT_EQ(count, 40);
}

}  // namespace
}  // namespace dtn::test
