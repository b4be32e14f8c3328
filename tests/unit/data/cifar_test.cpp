#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;

class CifarTest : public testing::Test {
 protected:
  CifarTest() {
    data.dataset = "cifar10";
    data.root = dir.string();
    model.num_classes = 10;
  }
  std::unique_ptr<Dataset> open(Split split = Split::kTrain) {
    return open_dataset(data, model, split, 0);
  }
  // One record: the label bytes, then planes.
  static void append(Bytes& file, const Bytes& labels, const Bytes& planes) {
    file.insert(file.end(), labels.begin(), labels.end());
    file.insert(file.end(), planes.begin(), planes.end());
  }
  static Bytes records(const Bytes& labels) {
    Bytes file;
    for (std::uint8_t label : labels) append(file, {label}, noise(3072, label));
    return file;
  }
  void write_train(const std::string& folder) {
    for (int i = 1; i <= 5; ++i) {
      std::uint8_t label = static_cast<std::uint8_t>(i);
      write_bytes(dir.path() / folder / cat("data_batch_", i, ".bin"), records({label, 0}));
    }
  }
  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

TEST_F(CifarTest, ReadsCifar10InFileOrder) {
  write_train("");
  auto set = open();
  ASSERT_EQ(set->size(), 10);
  EXPECT_EQ(set->label(0), 1);
  EXPECT_EQ(set->label(1), 0);
  EXPECT_EQ(set->label(8), 5);
  EXPECT_NE(set->sample_name(9).find("data_batch_5.bin[1]"), std::string::npos);
  SampleWorkspace workspace;
  Sample sample = set->load(8, workspace);
  ASSERT_NE(sample.image, nullptr);
  EXPECT_EQ(sample.image->channels, 3);
  Bytes planes = noise(3072, 5);
  for (std::size_t i : {std::size_t{0}, std::size_t{33}, std::size_t{1023}}) {
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(sample.image->pixels[3 * i + c], planes[1024 * c + i]);
    }
  }
}

TEST_F(CifarTest, FindsArchiveFolderAndClassNames) {
  write_bytes(dir.path() / "cifar-10-batches-bin/test_batch.bin", records({3}));
  std::string names = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n";
  write_bytes(dir.path() / "cifar-10-batches-bin/batches.meta.txt",
              Bytes(names.begin(), names.end()));
  auto set = open(Split::kVal);
  EXPECT_EQ(set->label(0), 3);
  ASSERT_EQ(set->class_names().size(), 10u);
  EXPECT_EQ(set->class_names()[9], "j");
  expect_error<DataError>([&] { open(Split::kTrain); }, {"data_batch_1.bin", "data.root"});
}

TEST_F(CifarTest, ReadsFineLabelsOfCifar100) {
  data.dataset = "cifar100";
  model.num_classes = 100;
  Bytes file;
  append(file, {19, 87}, noise(3072, 4));
  write_bytes(dir.path() / "train.bin", file);
  auto set = open();
  ASSERT_EQ(set->size(), 1);
  EXPECT_EQ(set->label(0), 87);
  EXPECT_EQ(set->num_classes(), 100);
  SampleWorkspace workspace;
  EXPECT_EQ(set->load(0, workspace).image->pixels[1], noise(3072, 4)[1024]);
}

TEST_F(CifarTest, RejectsFilesOfWrongSize) {
  write_bytes(dir.path() / "test_batch.bin", Bytes(3072, 0));
  expect_error<DataError>([&] { open(Split::kVal); }, {"test_batch.bin", "3073"});
  write_bytes(dir.path() / "test_batch.bin", {});
  expect_error<DataError>([&] { open(Split::kVal); }, {"test_batch.bin", "0 bytes"});
}

TEST_F(CifarTest, RejectsLabelsOutOfRange) {
  write_bytes(dir.path() / "test_batch.bin", records({1, 10}));
  model.num_classes = 1000;
  expect_error<DataError>([&] { open(Split::kVal); }, {"test_batch.bin", "label 10", "index 1"});
  write_bytes(dir.path() / "test_batch.bin", records({1, 9}));
  EXPECT_EQ(open(Split::kVal)->size(), 2);
  model.num_classes = 9;
  expect_error<DataError>([&] { open(Split::kVal); }, {"label 9"});
}

TEST_F(CifarTest, ErrorNamesMissingBatch) {
  write_train("");
  std::filesystem::remove(dir.path() / "data_batch_4.bin");
  expect_error<DataError>([&] { open(); }, {"data_batch_4.bin"});
}

}  // namespace
}  // namespace dtn
