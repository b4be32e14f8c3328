// A judge of samples: its input, its agreement with the asked classes, and files of samples.
#include "tasks/judging/sample_judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "independent_images.h"
#include "tasks/class_names.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn::test {
namespace {

void expect_data_error(const std::function<void()>& work, const char* text) {
  try {
    work();
    FAIL() << "no error; wanted: " << text;
  } catch (const DataError& e) {
    expect_contains(e.what(), text);
  }
}

ExperimentConfig judge_config(const std::string& data = "{dataset: synthetic, size: 40}") {
  return parse_experiment(
      "model: {preset: vit_t, image_size: 8, patch_size: 4, channels: 1, num_classes: 10,\n"
      "        embed_dim: 24, depth: 2, num_heads: 4, class_token_at: 1}\ndata: " +
          data + "\n",
      "judge", {}, standard_registries().schemas());
}

class SampleJudgeTest : public ::testing::Test {
 protected:
  explicit SampleJudgeTest(ExperimentConfig config = judge_config())
      : config_(std::move(config)), task_(config_), judge_(make()) {}

  SampleJudge make() { return {task_, config_, kCpu, standard_registries(), 4}; }
  static SampleFile file_of(Tensor samples, std::vector<std::int64_t> labels) {
    const std::int64_t n = samples.dim(0);
    return {"file", std::move(samples), Tensor::from(labels, {n}), {}};
  }

  ExperimentConfig config_;
  Classify task_;
  SampleJudge judge_;
};

TEST_F(SampleJudgeTest, MapsSamplesToItsInput) {
  Tensor samples = Tensor::zeros({2, 1, 8, 8}, DType::kFloat32);
  samples.data<float>()[0] = -1;
  samples.data<float>()[1] = 1;
  samples.data<float>()[2] = 3;  // limited to 1
  config_.data.mean = {0.25};
  config_.data.std = {0.5};
  const Tensor input = make().input_of(file_of(samples, {0, 1}));
  const float expected[] = {-0.5f, 1.5f, 1.5f, 0.5f};
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(input.data<float>()[i], expected[i]);
}

TEST_F(SampleJudgeTest, ReadsTensorsUnchanged) {
  config_.data.dataset = "tensors";
  const Tensor samples = Tensor::full({2, 1, 8, 8}, DType::kFloat32, 7);
  EXPECT_EQ(make().input_of(file_of(samples, {0, 1})).data<float>()[5], 7);
}

TEST_F(SampleJudgeTest, RefusesOtherSizes) {
  for (const Shape& shape : {Shape{2, 3, 8, 8}, Shape{2, 1, 8, 16}}) {
    const SampleFile file = file_of(Tensor::zeros(shape, DType::kFloat32), {0, 1});
    expect_data_error([&] { judge_.input_of(file); }, "train a judge on images of the size");
  }
}

TEST_F(SampleJudgeTest, DoesNotDependOnTheBatch) {
  Tensor samples = Tensor::empty({9, 1, 8, 8}, DType::kFloat32);
  for (std::int64_t i = 0; i < samples.numel(); ++i) {
    samples.data<float>()[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  }
  const Tensor labels = Tensor::zeros({9}, DType::kInt64);
  const Judgement one = judge_.judge(samples, labels, {});
  const Judgement other =
      SampleJudge(task_, config_, kCpu, standard_registries(), 9).judge(samples, labels, {});
  EXPECT_EQ(one.seen, other.seen);
  ASSERT_EQ(one.features.shape(), (Shape{9, 24}));
  expect_same_images(one.features, other.features);
}

TEST_F(SampleJudgeTest, KeepsTheFeaturesOfADraw) {
  const auto images = judge_.training_images();
  ASSERT_EQ(images->size(), 40);
  const std::vector<std::int64_t> drawn = draw_images(*images, 20);
  ASSERT_EQ(drawn.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(drawn));
  const Judgement all = judge_.judge(images, std::nullopt, {});
  const Judgement some = judge_.judge(images, drawn, {});
  EXPECT_EQ(some.seen, all.seen);
  ASSERT_EQ(some.features.dim(0), 20);
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(some.features.data<float>()[i * 24],
              all.features.data<float>()[drawn[static_cast<std::size_t>(i)] * 24]);
  }
  std::vector<std::int64_t> per_class(10);
  for (const std::int64_t i : drawn)
    ++per_class[static_cast<std::size_t>(all.labels[static_cast<std::size_t>(i)])];
  EXPECT_LE(std::ranges::max(per_class) - std::ranges::min(per_class), 1);
}

TEST(Judgement, AgreementIsTheShareOfHits) {
  const Judgement judgement{{}, {0, 1, 1, -1}, {0, 1, 2, 2}, {0, 1, 2, 3}};
  EXPECT_DOUBLE_EQ(judgement.agreement(), 50);
  const auto classes = agreement_by_class(judgement, 3);
  EXPECT_EQ(classes[0].hits, 1);
  EXPECT_EQ(classes[1].count, 1);
  EXPECT_EQ(classes[2].count, 2);
  EXPECT_EQ(classes[2].hits, 0);
  EXPECT_TRUE(std::isnan(Judgement{}.agreement()));
}

class SampleFileTest : public ::testing::Test {
 protected:
  std::string write(const NamedTensors& tensors, const StringMap& metadata = {}) const {
    const auto path = folder_.path() / "samples.safetensors";
    write_safetensors(path, tensors, metadata);
    return path.string();
  }
  // Returns the labels of a file of samples for a model of these classes.
  std::vector<std::int64_t> matched(std::vector<std::int64_t> labels, const StringMap& metadata,
                                    const ClassList& model) const {
    const auto n = static_cast<std::int64_t>(labels.size());
    SampleFile file =
        read_sample_file(write({{"samples", Tensor::zeros({n, 1, 2, 2}, DType::kFloat32)},
                                {"labels", Tensor::from(labels, {n})}},
                               metadata));
    match_sample_labels(model, file);
    const auto found = file.labels.values<std::int64_t>();
    return {found.begin(), found.end()};
  }

  TempFolder folder_;
};

TEST_F(SampleFileTest, LabelsAreMatchedByName) {
  const StringMap names = {{kClassNamesKey, as_json({"cat", "dog", "fish"})}};
  const ClassList model{"the judge", {"fish", "dog", "bird", "cat"}, 4};
  EXPECT_EQ(matched({0, 1, 2, 0}, names, model), (std::vector<std::int64_t>{3, 1, 0, 3}));
  EXPECT_EQ(matched({3, 1}, {}, model), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(matched({3, 1}, {}, {"the judge", {}, 4}), (std::vector<std::int64_t>{3, 1}));
  const ClassList other{"the judge", {"fish", "dog", "bird"}, 3};
  expect_data_error([&] { matched({0, 1}, names, other); }, "'cat' is not among");
  expect_data_error([&] { matched({0, 4}, {}, model); }, "label 4 is no class");
  expect_data_error([&] { matched({0, -1}, {}, model); }, "label -1 is no class");
  expect_data_error([&] { matched({0, 3}, names, model); }, "label 3 is no class");
}

TEST_F(SampleFileTest, IsChecked) {
  const Tensor labels = Tensor::zeros({2}, DType::kInt64);
  Tensor samples = Tensor::zeros({2, 1, 2, 2}, DType::kFloat32);
  const auto expect = [&](const NamedTensors& tensors, const char* text) {
    const std::string path = write(tensors);
    expect_data_error([&] { read_sample_file(path); }, text);
  };
  expect({{"samples", samples}}, "has no tensor `labels`; write the file with dtn-sample");
  expect({{"labels", labels}}, "has no tensor `samples`");
  expect({{"samples", samples.reshape({2, 4})}, {"labels", labels}}, "expected [N, C, H, W]");
  expect({{"samples", samples}, {"labels", labels.slice(0, 1)}}, "expected [2] int64");
  samples.data<float>()[6] = std::nanf("");
  expect({{"samples", samples}, {"labels", labels}}, "1 of 2 samples has values");
}

}  // namespace
}  // namespace dtn::test
