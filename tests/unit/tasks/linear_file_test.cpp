// Files of linear classifiers, and files that are not.
#include "tasks/frozen/linear_file.h"

#include "dtn/models/weights.h"
#include "self_supervised_runs.h"
#include "tasks/frozen/linear_probe.h"
#include "texts.h"

namespace dtn::test {
namespace {

Tensor floats(const Shape& shape) { return as(random_tensor(shape, 4), DType::kFloat32); }

class LinearFile : public ::testing::Test {
 protected:
  std::string write(const NamedTensors& tensors) {
    const std::string file = (folder_.path() / "linear.safetensors").string();
    write_safetensors(file, tensors);
    return file;
  }
  std::string error_of(const NamedTensors& tensors) {
    const std::string file = write(tensors);
    try {
      read_linear(file);
    } catch (const DataError& e) {
      return e.what();
    }
    return "";
  }

 private:
  TempFolder folder_;
};

TEST_F(LinearFile, ReadsWithAndWithoutPrefix) {
  const Tensor weight = floats({5, 3}), bias = floats({5});
  for (const std::string prefix : {"", "module.", "_orig_mod.module."}) {
    const LinearClassifier read =
        read_linear(write({{prefix + "linear.weight", weight}, {prefix + "linear.bias", bias}}));
    EXPECT_TRUE(same_bits(read.weight, weight));
    EXPECT_TRUE(same_bits(read.bias, bias));
  }
}

TEST_F(LinearFile, GivesTheLogitsOfTheSavedClassifier) {
  LinearProbe trained(3, 5, {.epochs = 1, .lr = 1, .batch = 4});
  trained.begin_epoch(0);
  trained.add(floats({8, 3}), Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2}, {8}));
  LinearProbe given(3, 5, {.seed = 9});
  const Tensor features = floats({6, 3});
  EXPECT_FALSE(same_bits(given.logits(features), trained.logits(features)));
  const std::string file = write(named_values(trained.parameters()));
  load_exact(given.parameters(), read_linear(file).named(), file);
  EXPECT_TRUE(same_bits(given.logits(features), trained.logits(features)));
}

TEST_F(LinearFile, RefusesOtherFiles) {
  const Tensor weight = floats({5, 3}), bias = floats({5});
  expect_contains(error_of({{"linear.weight", weight}}), "has no tensor linear.bias");
  expect_contains(error_of({{"linear.bias", bias}}), "has no tensor linear.weight");
  expect_contains(error_of({{"linear.weight", weight}, {"linear.bias", floats({4})}}),
                  "linear.weight is [5, 3] and linear.bias [4]");
  expect_contains(error_of({{"linear.weight", floats({5})}, {"linear.bias", bias}}),
                  "linear.weight is [5] and");
  expect_contains(error_of({{"linear.weight", floats({0, 3})}, {"linear.bias", floats({0})}}),
                  "linear.weight is [0, 3]");
  expect_contains(
      error_of({{"linear.weight", weight}, {"linear.bias", bias}, {"head.weight", weight}}),
      "tensor head.weight [5, 3] is not part of a linear classifier");
  expect_contains(
      error_of(
          {{"linear.weight", weight}, {"module.linear.weight", weight}, {"linear.bias", bias}}),
      "tensor module.linear.weight [5, 3] occurs twice");
  expect_contains(
      error_of({{"linear.weight", Tensor::zeros({5, 3}, DType::kInt64)}, {"linear.bias", bias}}),
      "linear.weight is int64, not a floating-point type");
}

}  // namespace
}  // namespace dtn::test
