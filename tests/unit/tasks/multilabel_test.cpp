// The task of images with any number of classes: its loss, its figures and its threshold.
#include "dtn/tasks/multilabel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "data/feed/image_samples.h"
#include "data/sample/mixing.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/registries.h"
#include "tasks/multilabel/meter.h"
#include "tasks/multilabel/threshold.h"
#include "temp_folder.h"
#include "tensors.h"
#include "texts.h"
#include "thread_ranks.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kImages = 12, kClasses = 3, kSide = 8;

// A file of images with labels: image i has the classes that divide i + 1, counted from 1.
class MultilabelTask : public ::testing::Test {
 protected:
  MultilabelTask() {
    Tensor labels = Tensor::empty({kImages, kClasses}, DType::kUInt8);
    for (std::int64_t i = 0; i < kImages * kClasses; ++i) {
      labels.data<std::uint8_t>()[i] = (i / kClasses + 1) % (i % kClasses + 1) == 0;
    }
    write(labels);
  }

  void write(const Tensor& labels) const {
    const Tensor images = as(random_tensor({kImages, 3, kSide, kSide}, 3), DType::kFloat32);
    for (const char* split : {"train", "val"}) {
      write_safetensors(folder_.path() / cat(split, ".safetensors"),
                        {{"images", images}, {"labels", labels}});
    }
  }
  ExperimentConfig config(const std::vector<std::string>& set = {}) const {
    return parse_experiment(
        cat("task: multilabel\nmodel: {preset: vit_t, image_size: 8, patch_size: 4, embed_dim: 12, "
            "depth: 1, num_heads: 2, mlp_ratio: 2, num_classes: 3}\n"
            "data: {dataset: tensors, root: ",
            folder_.path().string(), "}\n"),
        "test", set, standard_registries().schemas());
  }
  std::unique_ptr<Task> make(const ExperimentConfig& config) const {
    return make_task({config, kCpu, standard_registries()});
  }
  // Returns a batch of the samples from `first` on.
  static Fields batch(const SampleSource& source, std::int64_t first, std::int64_t n) {
    Fields fields;
    for (const FieldSpec& spec : source.host_fields()) {
      fields[spec.name] = Tensor::empty(shape_of(spec, n), spec.dtype);
    }
    const auto workspace = source.make_workspace();
    for (std::int64_t i = 0; i < n; ++i) {
      FieldRow row(fields, i);
      source.make(first + i, {0, 0, static_cast<std::uint64_t>(i)}, row, *workspace);
    }
    return fields;
  }

  TempFolder folder_;
};

TEST_F(MultilabelTask, DeliversLabelOfEachClass) {
  const ExperimentConfig config = this->config();
  const auto source = make(config)->source(Split::kTrain, kCpu);
  const Fields fields = batch(*source, 0, kImages);
  EXPECT_EQ(doubles(fields.at("labels").slice(0, 3)), (Doubles{1, 0, 0, 1, 1, 0, 1, 0, 1}));
  EXPECT_FALSE(fields.has("label"));
  EXPECT_TRUE(source->labels().empty());
  // The identity tells data sets with other labels apart.
  EXPECT_NE(source->identity(0).substr(1), source->identity(1).substr(1));
}

TEST_F(MultilabelTask, LossIsMeanOfBinaryCrossEntropies) {
  const ExperimentConfig config = this->config();
  const std::unique_ptr<Task> task = make(config);
  const Fields fields = batch(*task->source(Split::kTrain, kCpu), 0, 5);
  Context ctx;
  std::vector<Term> terms;
  const double loss = task->loss(ctx, fields, terms).value().data<float>()[0];
  const Doubles logits = doubles(task->outputs(ctx, fields).at("logits"));
  const Doubles labels = doubles(fields.at("labels"));
  double expected = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    expected -= std::log(labels[i] == 1 ? p : 1 - p) / static_cast<double>(logits.size());
  }
  EXPECT_NEAR(loss, expected, 1e-6);
  EXPECT_GT(loss, 0.1);
}

// Mixed images have the labels of both, with the weights of their pixels.
TEST_F(MultilabelTask, MixesLabelsWithImages) {
  const ExperimentConfig config = this->config({"augment.mixup=1", "train.batch_size=4"});
  const auto source = make(config)->source(Split::kTrain, kCpu);
  Fields host = batch(*source, 0, 4);
  const Doubles before = doubles(host.at("labels"));
  Fields device = host;
  const BatchKey key{7, 0, 3};
  source->make_finisher(kCpu)->finish(host, key, device);
  const double share = sample_mix(kSide, kSide, config.augment, key).share;
  ASSERT_TRUE(share > 0.01 && share < 0.99) << share;
  const Doubles after = doubles(device.at("labels"));
  for (std::size_t b = 0; b < 4; ++b) {
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(after[3 * b + k],
                  share * before[3 * b + k] + (1 - share) * before[3 * (3 - b) + k], 1e-6);
    }
  }
  for (const FieldSpec& field : source->device_fields()) EXPECT_NE(field.name, "partner_label");
}

TEST_F(MultilabelTask, RejectsOtherLabels) {
  const auto open = [&](const Tensor& labels) {
    write(labels);
    make(config())->source(Split::kTrain, kCpu);
  };
  Tensor two = Tensor::zeros({kImages, kClasses}, DType::kInt64);
  two.data<std::int64_t>()[4] = 2;
  expect_error<DataError>([&] { open(two); }, {"value 2 for image 1, class 1", "give 0 or 1"});
  expect_error<DataError>([&] { open(Tensor::zeros({kImages}, DType::kInt64)); },
                          {"`labels` is [12]", "expected [12, K]"});
  expect_error<DataError>(
      [&] {
        open(Tensor::zeros({kImages, 2}, DType::kUInt8));
      },
      {"has 2 classes, but model.num_classes is 3; set it to 2"});
  EXPECT_NO_THROW(open(Tensor::full({kImages, kClasses}, DType::kFloat32, 1)));
}

TEST_F(MultilabelTask, DoesNotReadLossOfClassify) {
  for (const char* key : {"train.loss=focal", "train.label_smoothing=0.1",
                          "train.class_weights=balanced", "data.sampling=balanced"}) {
    expect_error<ConfigError>([&] { config({key}); }, {"not read by the task 'multilabel'"});
  }
}

TEST_F(MultilabelTask, ReadsThresholdOfWeights) {
  const ExperimentConfig config = this->config();
  const std::unique_ptr<Task> made = make(config);
  const NamedTensors weights = named_values(*made->stores().front().value);
  const auto load = [&](const StringMap& metadata) {
    const std::filesystem::path file = folder_.path() / "weights.safetensors";
    write_safetensors(file, weights, metadata);
    auto task = std::make_unique<Multilabel>(TaskSetup{config, kCpu, standard_registries()});
    const auto notes = task->load_weights(file.string(), WeightsUse::kEvaluation);
    return std::pair(std::move(task), notes);
  };
  EXPECT_TRUE(made->finds_threshold());
  const double threshold = 0.1 + 1e-13;
  const auto [with, no_notes] = load({{kThresholdKey, threshold_text(threshold)}});
  EXPECT_EQ(with->threshold(), threshold);
  const auto [without, notes] = load({});
  EXPECT_EQ(without->threshold(), 0.5);
  ASSERT_FALSE(notes.empty());
  expect_contains(notes.back(), "no threshold, so F1 is measured at 0.5");
  for (const char* bad : {"0", "1.5", "-1", "nan", "", "0.5x"}) {
    expect_error<DataError>([&] { load({{kThresholdKey, bad}}); }, {"threshold is"});
  }
}

// --- MultilabelMeter ----------------------------------------------------------------------------

struct Answers {
  Tensor logits = as(random_tensor({40, kClasses}, 5, 3), DType::kFloat32);
  Tensor labels = Tensor::empty({40, kClasses}, DType::kFloat32);

  Answers() {
    for (std::int64_t i = 0; i < labels.numel(); ++i) {
      labels.data<float>()[i] = logits.data<float>()[i] + static_cast<float>(i % 7) > 4 ? 1 : 0;
    }
  }
  void add_to(MultilabelMeter& meter, std::int64_t sample) const {
    meter.add({{"labels", labels.slice(sample, sample + 1)},
               {"index", Tensor::from(std::vector<std::int64_t>{sample}, {1})}},
              {{"logits", logits.slice(sample, sample + 1)}});
  }
};

TEST(MultilabelMeters, FindThresholdUnlessGiven) {
  const Answers answers;
  MultilabelMeter finds(kClasses, std::nullopt), given(kClasses, 0.5);
  for (std::int64_t i = 0; i < 40; ++i) {
    answers.add_to(finds, i);
    answers.add_to(given, i);
  }
  EXPECT_EQ(given.result().at("threshold"), 0.5);
  EXPECT_GE(finds.result().at("f1_micro"), given.result().at("f1_micro"));
  EXPECT_EQ(finds.result().at("map"), given.result().at("map"));
  EXPECT_EQ(finds.result().primary, "map");
  MultilabelMeter again(kClasses, finds.result().at("threshold"));
  for (std::int64_t i = 0; i < 40; ++i) answers.add_to(again, i);
  EXPECT_EQ(again.result().values, finds.result().values);
}

TEST(MultilabelMeters, OfSeveralRanksMatchOneBitForBit) {
  const Answers answers;
  MultilabelMeter alone(kClasses, std::nullopt);
  for (std::int64_t i = 0; i < 40; ++i) answers.add_to(alone, i);
  for (const int size : {1, 2, 3}) {
    for (const std::int64_t own_from : {std::int64_t{0}, std::int64_t{35}}) {
      testing::with_ranks(size, [&](Communicator& ranks) {
        MultilabelMeter meter(kClasses, std::nullopt);
        for (std::int64_t i = 0; i < 40; ++i) {
          const std::int64_t owner = i < own_from ? 0 : i % size;
          if (owner == ranks.rank()) answers.add_to(meter, i);
        }
        meter.merge(ranks);
        EXPECT_EQ(meter.result().values, alone.result().values);
      });
    }
  }
}

TEST(MultilabelMeters, WithoutSamplesHaveZeros) {
  const Metrics none = MultilabelMeter(kClasses, std::nullopt).result();
  EXPECT_EQ(none.at("map"), 0);
  EXPECT_EQ(none.at("threshold"), 0.5);
}

}  // namespace
}  // namespace dtn::test
