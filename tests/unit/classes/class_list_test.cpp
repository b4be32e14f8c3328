// Classes whose names and order are in a text file.
#include "data/classes/class_list.h"

#include "data/classes/match_classes.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "unit/data/data_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Labels = std::vector<std::int64_t>;

class ClassListTest : public testing::Test {
 protected:
  ClassListTest() {
    data.root = dir.string();
    data.class_names = "classes.txt";
    model.num_classes = 0;
  }
  void list(const std::string& text) { std::ofstream(dir.path() / "classes.txt") << text; }
  void folders(const Names& names) {
    data.dataset = "imagefolder";
    for (const std::string& name : names) {
      fs::create_directories(dir.path() / "train" / name);
      write_bytes(dir.path() / "train" / name / "1.bmp", bmp_file(2, 2, noise(12, 1)));
    }
  }
  void tensors(const Labels& labels) {
    data.dataset = "tensors";
    const auto count = std::ssize(labels);
    write_safetensors(dir.path() / "train.safetensors",
                      {{"images", Tensor::zeros({count, 3, 4, 4}, DType::kFloat32)},
                       {"labels", Tensor::from(labels, {count})}});
    model.image_size = 4;
  }
  std::unique_ptr<Dataset> open() { return open_dataset(data, model, Split::kTrain, 0); }
  static Labels labels_of(const Dataset& set) {
    Labels labels;
    for (std::int64_t i = 0; i < set.size(); ++i) labels.push_back(set.label(i));
    return labels;
  }

  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

TEST_F(ClassListTest, OrdersClassesByName) {
  folders({"ant", "bee", "cow"});
  list(
      "\xef\xbb\xbf"
      "cow\r\n\n  dog \nant\nbee\n");
  const auto set = open();
  EXPECT_EQ(set->class_names(), (Names{"cow", "dog", "ant", "bee"}));
  EXPECT_EQ(labels_of(*set), (Labels{2, 3, 0}));
  EXPECT_EQ(set->num_classes(), 4);
  EXPECT_EQ(count_classes(data, model, 0, dataset_registry()), 4);
  EXPECT_EQ(set->item_name(2), "cow/1.bmp");
}

TEST_F(ClassListTest, NamesNumbers) {
  tensors({2, 0, 1, 1});
  list("ant\nbee\ncow\ndog\n");
  const auto set = open();
  EXPECT_EQ(set->class_names(), (Names{"ant", "bee", "cow", "dog"}));
  EXPECT_EQ(labels_of(*set), (Labels{2, 0, 1, 1}));
}

// The field of the model's number of classes is checked against the list.
TEST_F(ClassListTest, DecidesNumberOfClasses) {
  folders({"ant", "bee"});
  list("bee\nant\ncow\n");
  model.num_classes = 2;
  expect_error<DataError>([&] { open(); }, {"has 3 classes, but model.num_classes is 2"});
  model.num_classes = 3;
  EXPECT_EQ(labels_of(*open()), (Labels{1, 0}));
}

TEST_F(ClassListTest, ErrorsNameFileAndClass) {
  folders({"ant", "bee"});
  expect_error<DataError>([&] { open(); }, {"classes.txt"});
  list("ant\ncow\n");
  expect_error<DataError>([&] { open(); },
                          {"'bee' is not among the 2 classes", "classes.txt", "correct the list"});
  list("ant\nbee\nant\n");
  expect_error<DataError>([&] { open(); }, {"classes.txt", "names the class 'ant' twice"});
  list("\n \n");
  expect_error<DataError>([&] { open(); }, {"classes.txt", "has no names"});
  tensors({0, 5});
  list("ant\nbee\n");
  expect_error<DataError>([&] { open(); }, {"classes.txt"});
}

TEST_F(ClassListTest, OrdersColumnsOfLabels) {
  folders({});
  fs::create_directories(dir.path() / "train");
  for (const char* name : {"1.bmp", "2.bmp"}) {
    write_bytes(dir.path() / "train" / name, bmp_file(2, 2, noise(12, 1)));
  }
  std::ofstream(dir.path() / "train/l.csv") << "1.bmp,ant;cow\n2.bmp,bee\n";
  data.labels = "l.csv";
  list("cow\nbee\ndog\nant\n");
  const auto set = open_multilabel(data, model, Split::kTrain, 0);
  EXPECT_EQ(set->class_names(), (Names{"cow", "bee", "dog", "ant"}));
  const auto labels = set->ready_fields().at("labels").values<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(labels.begin(), labels.end()),
            (std::vector<int>{1, 0, 0, 1, 0, 1, 0, 0}));
}

}  // namespace
}  // namespace dtn
