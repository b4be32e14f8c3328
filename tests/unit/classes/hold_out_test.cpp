// The validation split that data.split holds out: stable, stratified, and never an empty class.
#include "data/classes/hold_out.h"

#include <cmath>
#include <map>
#include <set>

#include "data/source/split_folders.h"
#include "dtn/data/datasets.h"
#include "unit/data/data_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;
using Files = std::set<std::string>;

// Files of classes, without contents.
class NamedFiles final : public Dataset {
 public:
  explicit NamedFiles(const std::map<std::string, std::int64_t>& label_of) {
    for (const auto& [name, label] : label_of) {
      names_.push_back(name);
      labels_.push_back(label);
      num_classes_ = std::max(num_classes_, label + 1);
    }
    for (std::int64_t k = 0; k < num_classes_; ++k) class_names_.push_back(cat("class ", k));
    description_ = "named files";
  }
  Sample load(std::int64_t, SampleWorkspace&) const override { return {}; }
  std::string sample_name(std::int64_t index) const override { return "/here/" + name(index); }
  std::string item_name(std::int64_t index) const override { return name(index); }

 private:
  const std::string& name(std::int64_t index) const {
    return names_[static_cast<std::size_t>(index)];
  }
  std::vector<std::string> names_;
};

using LabelOf = std::map<std::string, std::int64_t>;

Files part_of(const LabelOf& files, Split split, double share = 0.2, std::uint64_t seed = 0) {
  const auto part = hold_out(std::make_shared<NamedFiles>(files), split, share, seed);
  Files names;
  for (std::int64_t i = 0; i < part->size(); ++i) {
    EXPECT_EQ(part->label(i), files.at(part->file_name(i)));
    names.insert(part->file_name(i));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(part->size()));
  return names;
}

LabelOf many_files(int classes, int each) {
  LabelOf files;
  for (int k = 0; k < classes; ++k) {
    for (int i = 0; i < each; ++i) files[cat("class", k, "/", i, ".jpg")] = k;
  }
  return files;
}

std::map<std::int64_t, int> counts(const Files& part, const LabelOf& files) {
  std::map<std::int64_t, int> of_class;
  for (const std::string& name : part) ++of_class[files.at(name)];
  return of_class;
}

TEST(HoldOut, DividesAllFiles) {
  const LabelOf files = many_files(3, 50);
  const Files train = part_of(files, Split::kTrain), val = part_of(files, Split::kVal);
  EXPECT_EQ(train.size() + val.size(), files.size());
  for (const std::string& name : val) EXPECT_FALSE(train.contains(name)) << name;
}

// The numbers are part of the meaning of a config: they must never change.
TEST(HoldOut, NumbersAreThoseOfEarlierVersions) {
  EXPECT_DOUBLE_EQ(hold_out_number(0, "cat/1.jpg"), 0.0924725442700477);
  EXPECT_DOUBLE_EQ(hold_out_number(1, "cat/1.jpg"), 0.3868148530576109);
  EXPECT_DOUBLE_EQ(hold_out_number(0, "a long name of a folder/and of a file.jpeg"),
                   0.8697963198776564);
  EXPECT_DOUBLE_EQ(hold_out_number(0, ""), 0.430265863791522);
}

TEST(HoldOut, NumbersAreUniform) {
  constexpr int kNames = 100'000, kBins = 20;
  std::vector<int> bins(kBins);
  for (int i = 0; i < kNames; ++i) {
    const double number = hold_out_number(7, cat("IMG_", i, ".JPG"));
    ASSERT_GE(number, 0);
    ASSERT_LT(number, 1);
    ++bins[static_cast<std::size_t>(number * kBins)];
  }
  double chi_square = 0;
  const double expected = double{kNames} / kBins;
  for (const int n : bins) chi_square += (n - expected) * (n - expected) / expected;
  EXPECT_LT(chi_square, 50) << "19 degrees of freedom: 50 has a chance of 1e-4";
}

TEST(HoldOut, TakesShareOfEachClass) {
  const LabelOf files = many_files(5, 1000);
  for (const double share : {0.05, 0.2, 0.5, 0.9}) {
    const double deviation = std::sqrt(1000 * share * (1 - share));
    for (const auto& [label, count] : counts(part_of(files, Split::kVal, share), files)) {
      EXPECT_NEAR(count, 1000 * share, 4.5 * deviation) << share << " of class " << label;
    }
  }
}

TEST(HoldOut, AddedFilesMoveNoOthers) {
  const LabelOf before = many_files(4, 60);
  LabelOf after = before;
  for (int i = 0; i < 200; ++i) after[cat("class", i % 4, "/new", i, ".jpg")] = i % 4;
  after["class9/new.jpg"] = 4;  // and a new class
  for (const Split split : {Split::kTrain, Split::kVal}) {
    const Files now = part_of(after, split);
    for (const std::string& name : part_of(before, split)) {
      EXPECT_TRUE(now.contains(name)) << name << " left " << name_of(split);
    }
  }
}

// Only the name decides, not the class: a corrected label moves no file.
TEST(HoldOut, CorrectedLabelsMoveNoFiles) {
  const LabelOf before = many_files(2, 60);
  LabelOf after = before;
  after["class0/7.jpg"] = after["class0/8.jpg"] = 1;
  EXPECT_EQ(part_of(before, Split::kVal), part_of(after, Split::kVal));
}

TEST(HoldOut, LargerSharesContainSmallerOnes) {
  const LabelOf files = many_files(2, 100);
  const Files larger = part_of(files, Split::kVal, 0.4);
  for (const std::string& name : part_of(files, Split::kVal, 0.1)) {
    EXPECT_TRUE(larger.contains(name)) << name;
  }
}

TEST(HoldOut, SeedsDiffer) {
  const LabelOf files = many_files(1, 200);
  EXPECT_NE(part_of(files, Split::kVal, 0.2, 0), part_of(files, Split::kVal, 0.2, 1));
  EXPECT_EQ(part_of(files, Split::kVal, 0.2, 1), part_of(files, Split::kVal, 0.2, 1));
}

// A class of two or more files has one in each split, whatever their numbers are.
TEST(HoldOut, SmallClassesAreInBothSplits) {
  for (const double share : {0.01, 0.2, 0.99}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const LabelOf files = many_files(10, 2);
      const auto train = counts(part_of(files, Split::kTrain, share, seed), files);
      const auto val = counts(part_of(files, Split::kVal, share, seed), files);
      for (std::int64_t k = 0; k < 10; ++k) {
        EXPECT_EQ(train.at(k), 1);
        EXPECT_EQ(val.at(k), 1);
      }
    }
  }
}

TEST(HoldOut, SingleFilesStayInTraining) {
  LabelOf files = many_files(1, 10);
  files["lonely/1.jpg"] = 1;
  files["alone/1.jpg"] = 2;
  testing::internal::CaptureStderr();
  const Files val = part_of(files, Split::kVal, 0.999);
  expect_contains(testing::internal::GetCapturedStderr(),
                  "2 classes have a single image, which stays in the training split: 'class 1', "
                  "'class 2'");
  EXPECT_FALSE(val.contains("lonely/1.jpg") || val.contains("alone/1.jpg"));
  EXPECT_TRUE(part_of(files, Split::kTrain, 0.999).contains("lonely/1.jpg"));
  expect_error<DataError>(
      [&] {
        part_of({{"a/1.jpg", 0}, {"b/1.jpg", 1}}, Split::kVal);
      },
      {"data.split", "named files", "none is left for validation"});
}

// Files with any number of labels.
class LabelledFiles final : public Dataset {
 public:
  explicit LabelledFiles(const std::vector<std::vector<int>>& labels_of, std::int64_t classes) {
    const std::int64_t files = std::ssize(labels_of);
    Tensor labels = Tensor::zeros({files, classes}, DType::kUInt8);
    for (std::int64_t i = 0; i < files; ++i) {
      for (const int k : labels_of[static_cast<std::size_t>(i)]) {
        labels.data<std::uint8_t>()[i * classes + k] = 1;
      }
    }
    labels_.resize(labels_of.size());
    ready_fields_["labels"] = labels;
    num_classes_ = classes;
    has_labels_ = false;
    description_ = "labelled files";
  }
  Sample load(std::int64_t, SampleWorkspace&) const override { return {}; }
  std::string sample_name(std::int64_t index) const override { return item_name(index); }
  std::string item_name(std::int64_t index) const override { return cat(index, ".jpg"); }
};

// Number of files of each class in a part.
std::vector<int> class_counts_of(const Dataset& part) {
  const Tensor& labels = part.ready_fields().at("labels");
  std::vector<int> counts(static_cast<std::size_t>(labels.dim(1)));
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    counts[static_cast<std::size_t>(i % labels.dim(1))] += labels.data<std::uint8_t>()[i];
  }
  return counts;
}

// Class 0 has nearly all files, class 1 two, class 2 three that have class 0 as well, and class 3
// is only in files of class 1.
TEST(HoldOut, RareLabelsAreInBothSplits) {
  std::vector<std::vector<int>> labels_of(40, {0});
  labels_of[3] = {1, 3};
  labels_of[17] = {1, 3};
  labels_of[5] = labels_of[6] = labels_of[30] = {0, 2};
  labels_of[9] = {};
  const auto whole = std::make_shared<LabelledFiles>(labels_of, 4);
  for (const double share : {0.02, 0.2, 0.98}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto train = hold_out(whole, Split::kTrain, share, seed);
      const auto val = hold_out(whole, Split::kVal, share, seed);
      EXPECT_EQ(train->size() + val->size(), 40);
      const std::vector<int> in_train = class_counts_of(*train), in_val = class_counts_of(*val);
      for (std::size_t k = 0; k < 4; ++k) {
        EXPECT_GT(in_train[k], 0) << "class " << k << ", share " << share << ", seed " << seed;
        EXPECT_GT(in_val[k], 0) << "class " << k << ", share " << share << ", seed " << seed;
      }
    }
  }
}

// Each file is the only one of a class: the training split keeps them.
TEST(HoldOut, SingleLabelsStayInTraining) {
  const auto whole =
      std::make_shared<LabelledFiles>(std::vector<std::vector<int>>{{0, 1}, {0, 2}, {0}, {0}}, 3);
  testing::internal::CaptureStderr();
  const auto val = hold_out(whole, Split::kVal, 0.9, 1);
  expect_contains(testing::internal::GetCapturedStderr(),
                  "2 classes have no image in the validation split: '1', '2'");
  const std::vector<int> counts = class_counts_of(*val);
  EXPECT_GT(counts[0], 0);
  EXPECT_EQ(counts[1] + counts[2], 0);
}

class HoldOutFolderTest : public testing::Test {
 protected:
  HoldOutFolderTest() {
    data.root = dir.string();
    data.split = 0.3;
    model.num_classes = 0;
  }
  void image(const std::string& name) {
    write_bytes(dir.path() / name, bmp_file(2, 2, noise(12, 1)));
  }
  std::unique_ptr<Dataset> open(Split split) { return open_dataset(data, model, split, 3); }
  Files files(Split split) {
    const auto set = open(split);
    Files names;
    for (std::int64_t i = 0; i < set->size(); ++i) names.insert(set->file_name(i));
    return names;
  }
  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

TEST_F(HoldOutFolderTest, DividesClassFolders) {
  for (int i = 0; i < 20; ++i) {
    image(cat("train/a/", i, ".bmp"));
    image(cat("train/b/", i, ".bmp"));
  }
  image("test/a/1.bmp");  // is not touched
  const auto train = open(Split::kTrain), val = open(Split::kVal);
  EXPECT_EQ(train->size() + val->size(), 40);
  EXPECT_EQ(val->class_names(), (std::vector<std::string>{"a", "b"}));
  expect_contains(val->description(), cat(val->size(),
                                          " val images (data.split: 0.3, seed: 3) of "
                                          "40 images of 2 classes in "));
  EXPECT_TRUE(has_validation_images(data));
  DataConfig evaluated = data;
  take_test_split(evaluated);
  EXPECT_FALSE(evaluated.val) << "dtn-eval evaluates what was held out";
  SampleWorkspace workspace;
  EXPECT_FALSE(val->load(0, workspace).encoded.empty());
  // The path below the folder decides, wherever the folder is.
  const Files before = files(Split::kVal);
  fs::rename(dir.path() / "train", dir.path() / "photos");
  data.train = "photos";
  EXPECT_EQ(files(Split::kVal), before);
}

TEST_F(HoldOutFolderTest, DividesRootWithoutTrain) {
  for (int i = 0; i < 10; ++i) {
    image(cat("a/", i, ".bmp"));
    image(cat("b/", i, ".bmp"));
  }
  EXPECT_EQ(files(Split::kTrain).size() + files(Split::kVal).size(), 20u);
}

TEST_F(HoldOutFolderTest, DividesTable) {
  std::string text;
  for (int i = 0; i < 30; ++i) {
    image(cat(i, ".bmp"));
    text += cat(i, ".bmp,", i % 3 == 0 ? "x" : "y", "\n");
  }
  data.labels = "labels.csv";
  std::ofstream(dir.path() / "labels.csv") << text;
  const Files val = files(Split::kVal);
  EXPECT_EQ(files(Split::kTrain).size() + val.size(), 30u);
  EXPECT_EQ(open(Split::kVal)->class_names(), open(Split::kTrain)->class_names());
  data.classes = {1};
  for (const std::string& name : files(Split::kVal)) EXPECT_TRUE(val.contains(name)) << name;
}

TEST_F(HoldOutFolderTest, DividesImagesWithoutLabels) {
  for (int i = 0; i < 30; ++i) image(cat("train/", i, ".bmp"));
  const auto all = [&](Split split) { return open_unlabelled(data, model, split, 3); };
  EXPECT_FALSE(all(Split::kVal)->has_labels());
  EXPECT_EQ(all(Split::kTrain)->size() + all(Split::kVal)->size(), 30);
}

TEST_F(HoldOutFolderTest, RejectsValidationSplit) {
  image("train/a/1.bmp");
  image("validation/a/1.bmp");
  for (const Split split : {Split::kTrain, Split::kVal}) {
    expect_error<DataError>([&] { open(split); },
                            {"data.split is 0.3", "validation split", "/validation", "unset"});
  }
  fs::remove_all(dir.path() / "validation");
  data.val = "held";
  expect_error<DataError>([&] { open(Split::kTrain); }, {"data.split", "/held", "unset data.val"});
}

}  // namespace
}  // namespace dtn
