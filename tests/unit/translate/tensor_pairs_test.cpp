// Pairs from a file of tensors: unchanged values, and errors that name file, field, value and
// index.
#include "tasks/translate/tensor_pairs.h"

#include "dtn/data/dataset_registry.h"
#include "dtn/io/safetensors.h"
#include "tasks/translate/pair_source.h"
#include "tensors.h"
#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

Tensor floats(const Shape& shape, std::uint32_t stream) {
  return as(random_tensor(shape, stream, 3), DType::kFloat32);  // also outside of [0, 1]
}

class TensorPairsTest : public ::testing::Test {
 protected:
  TensorPairsTest() {
    config.data.dataset = "tensors";
    config.data.root = folder.string();
    config.model.channels = 2;
    config.model.out_channels = 5;
    config.model.condition.size = 3;
    config.model.condition.styles = 4;
    tensors["input"] = floats({3, 2, 4, 6}, 1);
    tensors["target"] = floats({3, 5, 4, 6}, 2);
    tensors["style"] = Tensor::from(std::vector<std::int64_t>{3, 0, 1}, {3});
    tensors["vector"] = floats({3, 3}, 3);
    tensors["style_image"] = floats({3, 2, 4, 6}, 4);
    tensors["map"] = floats({3, 3, 4, 6}, 5);
  }
  std::shared_ptr<const SampleSource> open(Split split = Split::kTrain) {
    NamedTensors list(tensors.begin(), tensors.end());
    write_safetensors(folder.path() / "train.safetensors", list);
    return translate_source(config, dataset_registry(), split);
  }
  void expect_refused(std::vector<std::string> parts) {
    parts.push_back("train.safetensors");
    expect_error<DataError>([&] { open(); }, parts);
  }
  // Expects sample 1 to have these fields, with the bits of the file.
  void expect_fields(const std::set<std::string>& names) {
    const auto source = open();
    EXPECT_EQ(source->size(), 3);
    const PairRow row(*source, 1, {.seed = 9, .epoch = 5});
    std::set<std::string> found;
    for (const auto& [name, tensor] : row.fields) {
      found.insert(name);
      EXPECT_TRUE(same_bits(tensor, tensors.at(name).slice(1, 2))) << name;
    }
    EXPECT_EQ(found, names);
  }

  TempFolder folder;
  ExperimentConfig config = pair_config({4, 6});
  std::map<std::string, Tensor> tensors;
};

// [1, 3, 4, 6]: class 0 everywhere but at one pixel.
Tensor one_hot_at(std::int64_t pixel, std::int64_t label) {
  Tensor planes = Tensor::zeros({1, 3, 4, 6}, DType::kFloat32);
  float* at = planes.data<float>();
  std::fill_n(at, 24, 1.0f);
  at[pixel] = 0;
  at[label * 24 + pixel] = 1;
  return planes;
}

TEST_F(TensorPairsTest, HaveFieldsThatModelReads) {
  expect_fields({"input", "target"});
  config.model.condition.from = ConditionFrom::kIndex;
  expect_fields({"input", "target", "style"});
  config.model.condition.from = ConditionFrom::kVector;
  expect_fields({"input", "target", "vector"});
  config.model.condition.from = ConditionFrom::kImage;
  expect_fields({"input", "target", "style_image"});
  config.model.condition.from.reset();
  config.model.decoder_norm.emplace().type = "spade";
  expect_fields({"input", "target", "map"});
  config.model.norm.type = "spade";
  config.model.decoder_norm.reset();
  Tensor labels = Tensor::zeros({3, 4, 6}, DType::kInt64);
  labels.slice(1, 2).data<std::int64_t>()[5] = 2;  // of sample 1, at [0, 5]
  Tensor planes = Tensor::zeros({3, 3, 4, 6}, DType::kFloat32);
  planes.slice(1, 2).copy_from(one_hot_at(5, 2));
  tensors["map"] = labels;
  const auto source = open();
  const PairRow row(*source, 1, {.seed = 9, .epoch = 5});
  EXPECT_TRUE(same_bits(row.fields.at("map"), planes.slice(1, 2)));
}

TEST_F(TensorPairsTest, ValidationNeedsAFile) {
  EXPECT_EQ(open(Split::kVal), nullptr);
  config.data.val = "train.safetensors";
  EXPECT_EQ(open(Split::kVal)->size(), 3);
  config.data.train = "other.safetensors";
  expect_error<DataError>([&] { open(); }, {"other.safetensors", "data.train", "`input`"});
}

TEST_F(TensorPairsTest, ErrorsNameMissingAndMisshapenFields) {
  config.model.condition.from = ConditionFrom::kIndex;
  config.model.norm.type = "spade";
  const std::map<std::string, Tensor> whole = tensors;
  for (const char* name : {"input", "target", "style", "map"}) {
    tensors = whole;
    tensors.erase(name);
    expect_refused({cat("no tensor '", name, "'"), "it has: "});
    tensors = whole;
    tensors[name] = tensors[name].slice(0, 2);
    // The number of inputs is that of the file.
    const std::string wrong = std::string(name) == "input" ? "target" : name;
    expect_refused({cat("`", wrong, "` is "), "expected", "inputs"});
    tensors[name] = Tensor::zeros(whole.at(name).shape(), DType::kFloat64);
    expect_refused({cat("`", name, "` is float64 ")});
  }
  tensors = whole;
  tensors["input"] = floats({3, 3, 4, 6}, 1);
  expect_refused({"`input` is float32 [3, 3, 4, 6]", "float32 [3, 2, 4, 6]"});
  tensors = whole;
  tensors["target"] = floats({3, 5, 4, 4}, 1);
  expect_refused({"`target` is float32 [3, 5, 4, 4]", "float32 [3, 5, 4, 6]"});
  tensors["input"] = Tensor::zeros({0, 2, 4, 6}, DType::kFloat32);
  expect_refused({"`input` is empty"});
}

TEST_F(TensorPairsTest, ErrorsNameValuesOutOfRange) {
  config.model.condition.from = ConditionFrom::kIndex;
  tensors["style"].data<std::int64_t>()[2] = 4;
  expect_refused({"`style` 4 at index 2 is outside [0, 4)"});
  tensors["style"].data<std::int64_t>()[2] = -1;
  expect_refused({"`style` -1 at index 2"});
  config.model.condition.from = ConditionFrom::kVector;
  tensors["vector"].data<float>()[4] = NAN;
  expect_refused({"`vector` of image 1", "nan"});
  config.model.condition.from.reset();
  config.model.norm.type = "spade";
  tensors["map"] = Tensor::zeros({3, 4, 6}, DType::kInt64);
  tensors["map"].data<std::int64_t>()[24 + 6 + 5] = 3;
  expect_refused({"`map` has the label 3 at index [1, 1, 5]", "[0, 3)", "model.condition.size"});
}

TEST_F(TensorPairsTest, BytesOfStylesBecomeIntegers) {
  config.model.condition.from = ConditionFrom::kIndex;
  tensors["style"] = Tensor::from(std::vector<std::uint8_t>{1, 3, 2}, {3});
  const auto source = open();
  EXPECT_EQ(PairRow(*source, 1).style(), 3);
  EXPECT_EQ(source->identity(1), "1 3");
  tensors["style"] = Tensor::from(std::vector<std::uint8_t>{1, 200, 2}, {3});
  expect_refused({"`style` 200 at index 1"});
}

}  // namespace
}  // namespace dtn::test
