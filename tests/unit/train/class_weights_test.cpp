// Steps with class weights: the loss is a weighted mean over the whole batch.
#include <algorithm>

#include "small_run.h"
#include "texts.h"

namespace dtn {
namespace {

using namespace dtn::test;

const Doubles kWeights = {0.25, 3, 1, 0.5, 2, 0, 1.5};

// Random numbers would make the loss of a step unknown to the test.
ExperimentConfig weighted_run(LossKind loss = LossKind::kCrossEntropy) {
  ExperimentConfig config = small_run("ln");
  config.model.drop_path = config.model.dropout = 0;
  config.train.loss = loss;
  config.train.class_weights.values = kWeights;
  return config;
}

// A batch whose first and last rows have other classes than the rest.
Fields uneven_batch(const ExperimentConfig& config, int step = 0, bool mixed = false) {
  Fields batch = global_batch(config, step);
  for (std::int64_t i = 0; i < batch.count(); ++i) {
    batch.at("label").data<std::int64_t>()[i] = std::min((i * i + step) % 11, std::int64_t{6});
  }
  if (mixed) return batch;
  return {{"image", batch.at("image")}, {"label", batch.at("label")}};
}

// The sum of l_i over the samples, and of the weights of their labels, from the formula.
struct Sums {
  double loss = 0, weight = 0;
};
Sums sums_of(const ExperimentConfig& config, const Fields& batch, const Tensor& logits) {
  const TrainConfig& train = config.train;
  const std::int64_t n = logits.dim(0), K = logits.dim(1);
  const double gamma = train.focal_exponent();
  Sums sums;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t own = batch.at("label").data<std::int64_t>()[i];
    const bool mixed = batch.has("partner_label");
    const std::int64_t partner = mixed ? batch.at("partner_label").data<std::int64_t>()[i] : own;
    const double share = mixed ? batch.at("label_share").data<float>()[i] : 1;
    double all = 0;
    for (std::int64_t k = 0; k < K; ++k) all += std::exp(element(logits, i * K + k));
    for (std::int64_t k = 0; k < K; ++k) {
      const double log_p = element(logits, i * K + k) - std::log(all);
      const double hot = (k == own ? share : 0) + (k == partner ? 1 - share : 0);
      const double target = (1 - train.label_smoothing) * hot + train.label_smoothing / 7;
      sums.loss += target * kWeights[static_cast<std::size_t>(k)] *
                   std::pow(1 - std::exp(log_p), gamma) * -log_p;
    }
    sums.weight += kWeights[static_cast<std::size_t>(own)];
  }
  return sums;
}

// The first step of a learner, and the gradient of the whole batch.
struct FirstStep {
  double loss, norm;
  Doubles gradient;
};
FirstStep first_step(ExperimentConfig config, const Fields& batch, int micro_batch,
                     Communicator* ranks = nullptr) {
  config.train.micro_batch = micro_batch;
  config.optim.clip_grad_norm.reset();
  config.optim.momentum = 0;
  config.optim.weight_decay = 0;
  ClassifyLearner learner(config, kCpu, ranks);
  perturb(learner.parameters());
  const Tensor before = learner.parameters().values().clone();
  const Fields own =
      ranks ? rows_of(batch, rows_of_rank(config.train.batch_size, ranks->rank(), ranks->size()))
            : batch;
  const StepReport report = take_step(learner, own, 0, 1);
  FirstStep step{report.loss, report.grad_norm, doubles(before)};
  const Doubles after = doubles(learner.parameters().values());
  for (std::size_t i = 0; i < after.size(); ++i) step.gradient[i] -= after[i];
  return step;
}

Tensor logits_before(const ExperimentConfig& config, const Fields& batch) {
  ClassifyLearner learner(config);
  perturb(learner.parameters());
  Context ctx;
  return learner.task().outputs(ctx, batch).at("logits");
}

TEST(ClassWeights, LossIsWeightedMeanOverBatch) {
  for (LossKind kind : {LossKind::kCrossEntropy, LossKind::kFocal}) {
    for (double smoothing : {0.0, 0.1}) {
      ExperimentConfig config = weighted_run(kind);
      config.train.label_smoothing = smoothing;
      const Fields batch = uneven_batch(config);
      const Sums sums = sums_of(config, batch, logits_before(config, batch));
      ASSERT_GT(std::abs(sums.weight - 12), 1) << "the mean over samples is another";
      for (int micro_batch : {12, 6, 4, 3, 1}) {
        const double loss = first_step(config, batch, micro_batch).loss;
        EXPECT_NEAR(loss, sums.loss / sums.weight, 2e-6 * loss) << micro_batch;
      }
    }
  }
}

TEST(ClassWeights, MixedBatchesHaveMeanOverSamples) {
  for (LossKind kind : {LossKind::kCrossEntropy, LossKind::kFocal}) {
    ExperimentConfig config = weighted_run(kind);
    config.augment.mixup = 1;
    const Fields batch = uneven_batch(config, 0, true);
    const Sums sums = sums_of(config, batch, logits_before(config, batch));
    for (int micro_batch : {12, 4}) {
      const double loss = first_step(config, batch, micro_batch).loss;
      EXPECT_NEAR(loss, sums.loss / 12, 2e-6 * loss) << micro_batch;
    }
  }
}

// The micro-batches have very different sums of weights.
TEST(ClassWeights, SameGradientForAnyMicroBatchesAndRanks) {
  for (LossKind kind : {LossKind::kCrossEntropy, LossKind::kFocal}) {
    const ExperimentConfig config = weighted_run(kind);
    const Fields batch = uneven_batch(config);
    const FirstStep whole = first_step(config, batch, 12);
    const auto expect_same = [&](const FirstStep& step) {
      EXPECT_NEAR(step.loss, whole.loss, 2e-6 * whole.loss);
      EXPECT_NEAR(step.norm, whole.norm, 1e-5 * whole.norm);
      EXPECT_LT(distance(step.gradient, whole.gradient), 1e-5);
    };
    for (int micro_batch : {6, 4, 2, 1}) {
      SCOPED_TRACE(cat("micro-batches of ", micro_batch));
      expect_same(first_step(config, batch, micro_batch));
    }
    for (int size : {2, 3}) {
      for (int micro_batch : {12, 2}) {
        SCOPED_TRACE(cat(size, " ranks in micro-batches of ", micro_batch));
        const auto steps = on_ranks(size, [&](Communicator& ranks) {
          return first_step(config, batch, micro_batch, &ranks);
        });
        for (const FirstStep& step : steps) {
          EXPECT_EQ(step.gradient, steps[0].gradient);
          expect_same(step);
        }
      }
    }
  }
}

// Each batch of a run has its own sum of weights.
TEST(ClassWeights, EveryStepHasItsOwnSum) {
  ExperimentConfig config = weighted_run();
  config.optim.clip_grad_norm.reset();
  Outcome first;
  for (int micro_batch : {12, 3}) {
    config.train.micro_batch = micro_batch;
    ClassifyLearner learner(config);
    perturb(learner.parameters());
    Outcome outcome;
    for (int step = 0; step < 5; ++step) {
      outcome.losses.push_back(take_step(learner, uneven_batch(config, step), step, 0.02).loss);
    }
    if (micro_batch == 12) first = outcome;
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(outcome.losses[i], first.losses[i], 2e-5 * first.losses[i]) << "step " << i;
    }
  }
}

// Equal weights and an exponent of 0 give the plain loss.
TEST(ClassWeights, EqualWeightsChangeNothing) {
  ExperimentConfig plain = weighted_run();
  plain.train.class_weights = {};
  const Fields batch = uneven_batch(plain);
  const FirstStep expected = first_step(plain, batch, 12);
  ExperimentConfig focal = plain, equal = plain, twice = plain;
  focal.train.loss = LossKind::kFocal;
  focal.train.focal_gamma = 0;
  equal.train.class_weights.values = Doubles(7, 1);
  twice.train.class_weights.values = Doubles(7, 2);
  for (const ExperimentConfig& config : {focal, equal, twice}) {
    for (int micro_batch : {12, 4}) {
      const FirstStep step = first_step(config, batch, micro_batch);
      EXPECT_NEAR(step.loss, expected.loss, 1e-6 * expected.loss);
      EXPECT_LT(distance(step.gradient, expected.gradient), 2e-6);
    }
  }
}

// A batch of classes without weight has no loss, and no gradient.
TEST(ClassWeights, BatchWithoutWeightHasNoLoss) {
  for (double smoothing : {0.0, 0.1}) {
    ExperimentConfig config = weighted_run();
    config.train.label_smoothing = smoothing;
    Fields batch = uneven_batch(config);
    std::fill_n(batch.at("label").data<std::int64_t>(), 12, 5);
    for (int micro_batch : {12, 4}) {
      const FirstStep step = first_step(config, batch, micro_batch);
      EXPECT_EQ(step.loss, 0);
      EXPECT_EQ(step.norm, 0);
    }
  }
}

// Samples of which only the classes matter.
class Classes final : public SampleSource {
 public:
  explicit Classes(std::vector<std::int64_t> labels) : labels_(std::move(labels)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return "images"; }
  std::vector<std::string> class_names() const override {
    return {"ant", "bee", "cow", "dog", "elk", "fox", "gnu"};
  }
  std::vector<std::int64_t> labels() const override { return labels_; }
  std::vector<FieldSpec> host_fields() const override { return {}; }
  void make(std::int64_t, const SampleKey&, FieldRow&, Workspace&) const override {}

 private:
  std::vector<std::int64_t> labels_;
  std::string description_ = "animals";
};

TEST(ClassWeights, BalancedWeightsAreInverseToNumbersOfImages) {
  ExperimentConfig config = weighted_run();
  config.train.class_weights = {.balanced = true, .values = {}};
  const std::vector<std::int64_t> labels = {0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 3, 6, 6, 0};
  const Fields batch = uneven_batch(config);
  const auto step_of = [&](const ExperimentConfig& of) {
    ClassifyLearner learner(of);
    learner.task().learn_classes(Classes(labels));
    perturb(learner.parameters());
    return take_step(learner, batch, 0);
  };
  const StepReport balanced = step_of(config);
  // N / (K n_c), with N = 14 and K = 7
  config.train.class_weights = {.balanced = false,
                                .values = {2.0 / 5, 2, 2, 2.0 / 2, 2, 2, 2.0 / 3}};
  const StepReport listed = step_of(config);
  EXPECT_EQ(balanced.loss, listed.loss);
  EXPECT_EQ(balanced.grad_norm, listed.grad_norm);
}

TEST(ClassWeights, ObjectiveSaysWhatTheyAre) {
  ExperimentConfig config = weighted_run(LossKind::kFocal);
  Classify listed(config);
  expect_contains(listed.objective(), "focal loss, gamma 2, about 1.43 before training");
  expect_contains(listed.objective(), "; class weights from 0 to 3;");
  expect_contains(listed.objective(), "evaluations measure plain cross-entropy");
  config.train.class_weights = {.balanced = true, .values = {}};
  Classify balanced(config);
  balanced.learn_classes(Classes({0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 3, 6, 6, 0}));
  expect_contains(balanced.objective(), "; balanced class weights from 0.4 to 2;");
}

TEST(ClassWeights, ErrorsNameClassesAndNumbers) {
  ExperimentConfig config = weighted_run();
  config.train.class_weights = {.balanced = true, .values = {}};
  expect_error<DataError>(
      [&] {
        Classify(config).learn_classes(Classes({0, 1, 2, 3, 4, 6}));
      },
      {"train.class_weights: balanced has no weight for class 5 ('fox')", "animals has no images"});
  expect_error<DataError>([&] { Classify(config).learn_classes(Classes({})); },
                          {"balanced needs a class for each of the images"});
  config.train.class_weights = {.balanced = false, .values = {1, 2, 3}};
  expect_error<ConfigError>([&] { Classify(config).learn_classes(Classes({0})); },
                            {"train.class_weights has 3 weights for 7 classes"});
}

}  // namespace
}  // namespace dtn
