// Samples of the task diffusion: range of the images, time steps, noise and dropped labels, and
// what a data set brings itself.
#include <map>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/presets.h"
#include "tasks/diffusion/samples.h"
#include "temp_folder.h"
#include "tensors.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kClasses = 10;

ExperimentConfig config_of() {
  ExperimentConfig config;
  config.task = "diffusion";
  config.seed = 7;
  config.model = preset_registry().at("dit_tiny").model;
  config.model.image_size = 8;
  config.data.dataset = "synthetic";
  config.data.size = 40;
  config.augment.hflip = 0;
  return config;
}

// The fields of one sample.
struct Row {
  explicit Row(const DiffusionSamples& samples, std::int64_t index, SampleKey key) {
    for (const FieldSpec& spec : samples.host_fields()) {
      fields[spec.name] = Tensor::empty(shape_of(spec, 1), spec.dtype);
    }
    FieldRow row(fields, 0);
    const auto workspace = samples.make_workspace();
    key.sample = static_cast<std::uint64_t>(index);
    samples.make(index, key, row, *workspace);
  }
  std::int64_t number(const char* field) const { return fields.at(field).data<std::int64_t>()[0]; }
  Fields fields;
};

std::shared_ptr<const Dataset> images_of(const ExperimentConfig& config, Split split) {
  return open_dataset(config.data, config.model, split, config.seed);
}

DiffusionSamples samples_of(const ExperimentConfig& config, Split split = Split::kTrain) {
  return {images_of(config, split), config, split};
}

TEST(DiffusionSamples, PixelsBecomeMinusOneToOne) {
  const ExperimentConfig config = config_of();
  const auto images = images_of(config, Split::kTrain);
  const DiffusionSamples samples(images, config, Split::kTrain);
  SampleWorkspace workspace;
  const std::vector<std::uint8_t> pixels = images->load(3, workspace).image->pixels;
  const Row row(samples, 3, {.seed = 7});
  const auto got = row.fields.at("image").values<float>();
  ASSERT_EQ(got.size(), pixels.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_EQ(got[i], (static_cast<float>(pixels[i]) / 255.0f - 0.5f) / 0.5f);
    EXPECT_NEAR(got[i], pixels[i] / 127.5 - 1, 1e-6);
  }
}

TEST(DiffusionSamples, FlipsWithProbabilityOfConfigInTrainingOnly) {
  ExperimentConfig config = config_of();
  const Tensor plain = Row(samples_of(config), 5, {.seed = 7}).fields.at("image");
  config.augment.hflip = 1;
  const Tensor flipped = Row(samples_of(config), 5, {.seed = 7}).fields.at("image");
  for (std::int64_t y = 0; y < 8; ++y) {
    for (std::int64_t x = 0; x < 8; ++x) {
      ASSERT_EQ(flipped.data<float>()[y * 8 + x], plain.data<float>()[y * 8 + 7 - x]);
    }
  }
  const Tensor val = Row(samples_of(config, Split::kVal), 5, {.seed = 7}).fields.at("image");
  config.augment.hflip = 0;
  EXPECT_TRUE(
      same_bits(val, Row(samples_of(config, Split::kVal), 5, {.seed = 7}).fields.at("image")));
}

TEST(DiffusionSamples, PixelsHaveOneOrThreeChannels) {
  ExperimentConfig config = config_of();
  const auto images = images_of(config, Split::kTrain);
  config.model.channels = 4;
  EXPECT_THROW(DiffusionSamples(images, config, Split::kTrain), ConfigError);
}

// Frequencies over many samples, within five standard deviations.
TEST(DiffusionSamples, DrawsTimeNoiseAndDroppedLabels) {
  const ExperimentConfig config = config_of();
  const DiffusionSamples samples = samples_of(config);
  constexpr std::uint32_t kEpochs = 100;
  const double n = 40 * kEpochs;
  double time = 0, dropped = 0, sum = 0, squares = 0;
  std::map<std::int64_t, int> quartiles;
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::int64_t i = 0; i < 40; ++i) {
      const Row row(samples, i, {.seed = 7, .epoch = epoch});
      const std::int64_t t = row.number("timestep"), label = row.number("label");
      ASSERT_TRUE(0 <= t && t < 1000);
      time += static_cast<double>(t) / n;
      ++quartiles[t / 250];
      dropped += label == kClasses;
      ASSERT_TRUE(label == kClasses || label == i % kClasses);
      for (float v : row.fields.at("noise").values<float>()) {
        sum += v;
        squares += v * v;
      }
    }
  }
  EXPECT_NEAR(time, 499.5, 5 * 1000 / std::sqrt(12 * n));
  for (const auto& [quartile, count] : quartiles) {
    EXPECT_NEAR(count, n / 4, 5 * std::sqrt(n * 3 / 16)) << quartile;
  }
  EXPECT_NEAR(dropped, 0.1 * n, 5 * std::sqrt(n * 0.09));
  EXPECT_NEAR(sum / (64 * n), 0, 5 / std::sqrt(64 * n));
  EXPECT_NEAR(squares / (64 * n), 1, 5 * std::sqrt(2 / (64 * n)));
}

TEST(DiffusionSamples, DrawsDependOnSeedEpochAndSampleAlone) {
  const ExperimentConfig config = config_of();
  const DiffusionSamples samples = samples_of(config);
  const Tensor first = Row(samples, 2, {.seed = 7, .epoch = 1}).fields.at("noise");
  EXPECT_TRUE(same_bits(first, Row(samples, 2, {.seed = 7, .epoch = 1}).fields.at("noise")));
  EXPECT_FALSE(same_bits(first, Row(samples, 3, {.seed = 7, .epoch = 1}).fields.at("noise")));
  EXPECT_FALSE(same_bits(first, Row(samples, 2, {.seed = 7, .epoch = 2}).fields.at("noise")));
  EXPECT_FALSE(same_bits(first, Row(samples, 2, {.seed = 8, .epoch = 1}).fields.at("noise")));
}

TEST(DiffusionSamples, EvaluationsAreFixedAndKeepLabels) {
  ExperimentConfig config = config_of();
  config.model.label_dropout = 1;
  const DiffusionSamples samples = samples_of(config, Split::kVal);
  const Row one(samples, 4, {.seed = 7, .epoch = 0}), two(samples, 4, {.seed = 7, .epoch = 9});
  for (const auto& [name, tensor] : one.fields) {
    EXPECT_TRUE(same_bits(tensor, two.fields.at(name))) << name;
  }
  EXPECT_EQ(one.number("label"), 4);
  EXPECT_EQ(Row(samples_of(config), 4, {.seed = 7}).number("label"), kClasses);
  EXPECT_FALSE(same_bits(one.fields.at("noise"),
                         Row(samples_of(config), 4, {.seed = 7}).fields.at("noise")));
}

// A file of tensors with changes, opened as the task does.
class GivenTensors : public ::testing::Test {
 protected:
  GivenTensors() {
    config_.data.dataset = "tensors";
    config_.data.root = folder_.path().string();
    const auto ints = [](std::vector<std::int64_t> values) {
      const auto count = static_cast<std::int64_t>(values.size());
      return Tensor::from(values, {count});
    };
    const Tensor images = as(random_tensor({3, 1, 8, 8}, 1), DType::kFloat32);
    tensors_ = {{"images", images},
                {"labels", ints({0, kClasses, 2})},
                {"timesteps", ints({0, 999, 5})},
                {"noise", as(random_tensor({3, 1, 8, 8}, 2), DType::kFloat32)},
                {"drop", ints({0, 0, 1})}};
  }
  DiffusionSamples open() {
    write_safetensors(folder_.path() / "train.safetensors", tensors_);
    ModelConfig any = config_.model;
    any.num_classes = 0;
    return {open_tensors(config_.data, any, Split::kTrain), config_, Split::kTrain};
  }
  Tensor& at(const char* name) {
    return std::ranges::find(tensors_, name, &NamedTensors::value_type::first)->second;
  }
  void expect_error(const std::string& text) {
    try {
      open();
      ADD_FAILURE() << "no error about " << text;
    } catch (const DataError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }

  TempFolder folder_;
  ExperimentConfig config_ = config_of();
  NamedTensors tensors_;
};

TEST_F(GivenTensors, AreUsedUnchanged) {
  const DiffusionSamples samples = open();
  const std::int64_t times[] = {0, 999, 5}, labels[] = {0, kClasses, kClasses};
  for (std::int64_t i = 0; i < 3; ++i) {
    const Row row(samples, i, {.seed = 7, .epoch = 3});
    EXPECT_EQ(row.number("timestep"), times[i]);
    EXPECT_EQ(row.number("label"), labels[i]);
    EXPECT_TRUE(same_bits(row.fields.at("noise"), at("noise").slice(i, i + 1)));
    EXPECT_TRUE(same_bits(row.fields.at("image"), at("images").slice(i, i + 1)));
  }
}

TEST_F(GivenTensors, MissingOnesAreDrawn) {
  tensors_.resize(2);
  const DiffusionSamples samples = open();
  EXPECT_FALSE(same_bits(Row(samples, 0, {.seed = 7}).fields.at("noise"),
                         Row(samples, 1, {.seed = 7}).fields.at("noise")));
}

// Without label dropout, a model has no embedding for "no label".
TEST_F(GivenTensors, NeedEmbeddingOfNoLabel) {
  config_.model.label_dropout = 0;
  at("drop").data<std::int64_t>()[2] = 0;
  expect_error("label 10 is outside [0, 9]");
  for (int i = 0; i < 3; ++i) at("labels").data<std::int64_t>()[i] = i;
  open();
  at("drop").data<std::int64_t>()[2] = 1;
  expect_error("`drop` is 1");
}

TEST_F(GivenTensors, ErrorsNameFieldAndValue) {
  at("timesteps").data<std::int64_t>()[1] = 1000;
  expect_error("[1]: `timesteps` is 1000");
  at("timesteps").data<std::int64_t>()[1] = -1;
  expect_error("`timesteps` is -1");
  at("timesteps").data<std::int64_t>()[1] = 999;
  at("drop").data<std::int64_t>()[2] = 2;
  expect_error("`drop` is 2");
  at("drop").data<std::int64_t>()[2] = 1;
  at("labels").data<std::int64_t>()[0] = kClasses + 1;
  expect_error("label 11 is outside [0, 10]");
  at("labels").data<std::int64_t>()[0] = 0;
  const Tensor noise = at("noise");
  at("noise") = noise.slice(0, 2);
  expect_error("`noise` is float32 [2, 1, 8, 8]");
  at("noise") = as(noise, DType::kFloat64);
  expect_error("`noise`");
  at("noise") = noise;
  at("timesteps") = as(noise, DType::kFloat32).reshape({192}).slice(0, 3);
  expect_error("`timesteps` is float32");
}

}  // namespace
}  // namespace dtn::test
