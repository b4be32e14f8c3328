#include "data_fixtures.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

class TensorsTest : public testing::Test {
 protected:
  TensorsTest() {
    data.dataset = "tensors";
    data.root = dir.string();
    model.channels = 3;
    model.image_size = 2;
    model.num_classes = 5;
    std::vector<float> values(2 * 3 * 2 * 2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 7.5f;
    images = Tensor::from(values, {2, 3, 2, 2});
    labels = Tensor::from(std::vector<std::int64_t>{4, 1}, {2});
  }
  std::unique_ptr<Dataset> open(Split split = Split::kTrain) {
    return open_dataset(data, model, split, 0);
  }
  std::unique_ptr<Dataset> open(const Tensor& i, const Tensor& l) {
    write_safetensors(dir.path() / "train.safetensors", {{"images", i}, {"labels", l}});
    return open();
  }
  void expect_refused(const Tensor& i, const Tensor& l, const std::vector<std::string>& parts) {
    expect_error<DataError>([&] { open(i, l); }, parts);
  }
  TempFolder dir;
  DataConfig data;
  ModelConfig model;
  Tensor images, labels;
};

TEST_F(TensorsTest, ReturnsStoredValues) {
  auto set = open(images, labels);
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->label(0), 4);
  SampleWorkspace workspace;
  Sample sample = set->load(1, workspace);
  ASSERT_EQ(sample.ready.size(), 12u);
  EXPECT_EQ(sample.ready[0], 4.5f);
  EXPECT_EQ(sample.ready[11], 15.5f);
}

TEST_F(TensorsTest, FindsFileOfSplit) {
  expect_error<DataError>([&] { open(); }, {"train.safetensors", "data.train"});
  write_safetensors(dir.path() / "x.st", {{"images", images}, {"labels", labels}});
  data.val = "x.st";
  EXPECT_EQ(open(Split::kVal)->size(), 2);
  data.train = (dir.path() / "x.st").string();  // a whole path; root may be empty
  EXPECT_EQ(open(Split::kTrain)->size(), 2);
  data.root.clear();
  EXPECT_EQ(open(Split::kTrain)->size(), 2);
}

TEST_F(TensorsTest, AcceptsByteLabels) {
  Tensor bytes = Tensor::from(std::vector<std::uint8_t>{0, 3}, {2});
  EXPECT_EQ(open(images, bytes)->label(1), 3);
}

TEST_F(TensorsTest, ErrorsNameInvalidTensor) {
  write_safetensors(dir.path() / "train.safetensors", {{"pixels", images}});
  expect_error<DataError>([&] { open(); }, {"train.safetensors", "'images'", "pixels"});
  write_safetensors(dir.path() / "train.safetensors", {{"images", images}});
  expect_error<DataError>([&] { open(); }, {"train.safetensors", "'labels'"});
  expect_refused(Tensor::zeros({2, 3, 2, 2}, DType::kUInt8), labels, {"`images`", "uint8"});
  expect_refused(Tensor::zeros({2, 1, 2, 2}, DType::kFloat32), labels,
                 {"[2, 1, 2, 2]", "[N, 3, 2, 2]"});
  expect_refused(Tensor::zeros({2, 12}, DType::kFloat32), labels, {"[2, 12]"});
  expect_refused(Tensor::zeros({0, 3, 2, 2}, DType::kFloat32), Tensor::zeros({0}, DType::kInt64),
                 {"empty"});
  expect_refused(images, Tensor::zeros({3}, DType::kInt64), {"`labels`", "[3]", "[2]"});
  expect_refused(images, Tensor::zeros({2}, DType::kFloat32), {"`labels`", "float32"});
}

TEST_F(TensorsTest, RejectsLabelsOutOfRange) {
  expect_refused(images, Tensor::from(std::vector<std::int64_t>{0, 5}, {2}),
                 {"train.safetensors", "label 5", "index 1"});
  expect_refused(images, Tensor::from(std::vector<std::int64_t>{-1, 0}, {2}),
                 {"train.safetensors", "label -1", "index 0"});
}

TEST_F(TensorsTest, RejectsDamagedFiles) {
  write_bytes(dir.path() / "train.safetensors", noise(100, 1));
  expect_error<DataError>([&] { open(); }, {"train.safetensors"});
}

}  // namespace
}  // namespace dtn
