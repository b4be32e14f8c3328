// Several ranks together learn the same as one rank.
#include <algorithm>
#include <cmath>
#include <functional>

#include "counting_transport.h"
#include "small_run.h"

namespace dtn {
namespace {

using namespace dtn::test;
using testing::CountingTransport;

constexpr int kSteps = 5;

// Rotates the rows by `turn` places.
Fields turned(const Fields& batch, std::int64_t turn) {
  const std::int64_t n = batch.count();
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back((i + turn) % n);
  return rows_of(batch, rows);
}

struct How {
  int steps = kSteps;
  std::int64_t turn = 0;
  double noise = 0.25;
};
Outcome learn(const ExperimentConfig& config, Communicator* ranks, const How& how = {}) {
  ClassifyLearner learner(config, kCpu, ranks);
  if (how.noise > 0) perturb(learner.parameters(), how.noise);
  Outcome o;
  for (int i = 0; i < how.steps; ++i) {
    const StepReport report = take_step(learner, turned(batch_of(config, i, ranks), how.turn), i);
    EXPECT_TRUE(report.finite);
    o.losses.push_back(report.loss);
    o.norms.push_back(report.grad_norm);
  }
  Outcome end = outcome_of(learner);
  end.losses = o.losses;
  end.norms = o.norms;
  return end;
}

template <class Transport = testing::ThreadTransport>
std::vector<Outcome> learn_together(const ExperimentConfig& config, int size, const How& how = {}) {
  return on_ranks<Transport>(size, [&](Communicator& ranks) { return learn(config, &ranks, how); });
}

// The largest differences from the results of one rank.
struct Deviation {
  double weights = 0, average = 0, losses = 0, norms = 0;

  void add(const Outcome& a, const Outcome& b) {
    weights = std::max(weights, distance(a.weights(), b.weights()));
    average = std::max(average, distance(a.average(), b.average()));
    losses = std::max(losses, distance(a.losses, b.losses));
    norms = std::max(norms, distance(a.norms, b.norms));
  }
};

void expect_within(const Deviation& deviation, const Deviation& yardstick) {
  constexpr double kTimes = 5;
  const double rounding = unit_roundoff(DType::kFloat32);  // a few numbers may happen to agree
  EXPECT_GT(yardstick.weights, 0);
  EXPECT_LE(deviation.weights, kTimes * yardstick.weights);
  EXPECT_LE(deviation.average, kTimes * yardstick.average);
  EXPECT_LE(deviation.losses, kTimes * std::max(rounding, yardstick.losses));
  EXPECT_LE(deviation.norms, kTimes * std::max(rounding, yardstick.norms));
}

// Ranks and micro-batches split the same sums differently, so both may change the results by about
// the same amount. A wrongly weighted sample changes them a thousand times more.
TEST(MultiRankTraining, MatchesSingleRank) {
  for (int batch_size : {12, 10}) {
    ExperimentConfig config = small_run("dtn", batch_size);
    const Outcome alone = learn(config, nullptr);
    EXPECT_GT(alone.norms.back(), *config.optim.clip_grad_norm);  // clipping is active
    Deviation yardstick;
    for (int micro_batch : {2, 3, 4, 5, 6}) {
      if (batch_size % micro_batch != 0) continue;
      config.train.micro_batch = micro_batch;
      yardstick.add(learn(config, nullptr), alone);
    }
    for (int size : {2, 3, 4}) {
      for (int micro_batch : {1, 2, 12}) {
        config.train.micro_batch = micro_batch;
        if (micro_batch == 1 && batch_size % (2 * size) != 0) continue;
        SCOPED_TRACE(cat(size, " ranks share ", batch_size, " in micro-batches of ", micro_batch));
        const std::vector<Outcome> ranks = learn_together(config, size);
        for (const Outcome& other : ranks) expect_same_bits(other, ranks[0]);
        Deviation deviation;
        deviation.add(ranks[0], alone);
        expect_within(deviation, yardstick);
      }
    }
  }
}

TEST(MultiRankTraining, RejectsUnequalNumbersOfMicroBatches) {
  ExperimentConfig config = small_run("ln", 10);  // 4, 4 and 2 rows
  config.train.micro_batch = 1;
  const auto refusals = on_ranks(3, [&](Communicator& ranks) -> std::string {
    try {
      ClassifyLearner learner(config, kCpu, &ranks);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  });
  for (const std::string& why : refusals) {
    EXPECT_EQ(why,
              "train.batch_size 10 cannot be divided among 3 processes in micro-batches of 1; use "
              "fewer processes, or a batch_size that is a multiple of 2 x 3 x micro_batch");
  }
}

// All ranks keep the same weights and buffers, for every kind of dependence on the batch.
TEST(MultiRankTraining, KeepsRanksEqualForEveryNormalizerAndPrecision) {
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    ExperimentConfig config = small_run(schema.type);
    config.train.micro_batch = 2;
    for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      SCOPED_TRACE(cat(schema.type, precision == Precision::kBFloat16 ? ", bf16" : ""));
      config.train.precision = precision;
      config.train.reduce = precision == Precision::kBFloat16 ? ReducePrecision::kBFloat16
                                                              : ReducePrecision::kFloat32;
      const std::vector<Outcome> ranks = learn_together(config, 3);
      EXPECT_EQ(ranks[0].updates, kSteps);
      for (const Outcome& other : ranks) expect_same_bits(other, ranks[0]);
    }
  }
}

// Each rank computes norms of tensors and rates of layers alone; the results must be equal.
TEST(MultiRankTraining, KeepsRanksEqualForEveryOptimizerAndLayerDecay) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    SCOPED_TRACE(row.name());
    ExperimentConfig config = small_run("dtn");
    use_optimizer(config, row.name());
    config.optim.layer_decay = 0.75;
    config.optim.lambda_lr_scale = 10;
    const std::vector<Outcome> ranks = learn_together(config, 2);
    expect_same_bits(ranks[1], ranks[0]);
    const Outcome alone = learn(config, nullptr);
    // AdamW and Lion turn the rounding errors of a zero gradient into steps.
    if (row.name() == "sgd") {
      EXPECT_LE(distance(ranks[0].weights(), alone.weights()), 1e-4);
    }
    config.optim.layer_decay = 0.5;
    EXPECT_FALSE(same_bits(learn(config, nullptr).weights(), alone.weights()));
  }
}

// With `sync` the ranks' rows form one batch. Micro-batches would be batches themselves, so they
// are no reference. Another order of the rows changes only the order of sums.
TEST(MultiRankTraining, SyncNormalizersUseOneBatch) {
  for (const NormSchema& schema : norm_registry().schemas()) {
    const bool has_sync =
        std::ranges::any_of(schema.options, [](const OptionSchema& o) { return o.key == "sync"; });
    if (!has_sync || !schema.stands_alone()) continue;
    SCOPED_TRACE(schema.type);
    ExperimentConfig config = small_run(schema.type);
    config.model.drop_path = config.model.dropout = 0;  // these depend on the row
    const Outcome alone = learn(config, nullptr);
    Deviation yardstick;
    for (int turn : {1, 5, 7}) yardstick.add(learn(config, nullptr, {.turn = turn}), alone);
    for (int size : {2, 3, 4}) {
      SCOPED_TRACE(cat(size, " ranks"));
      Deviation together, deviation;
      config.model.norm.options = {{"sync", true}};
      together.add(learn_together(config, size)[0], alone);
      config.model.norm.options = {{"sync", false}};
      deviation.add(learn_together(config, size)[0], alone);
      expect_within(together, yardstick);
      EXPECT_GT(deviation.weights, 100 * yardstick.weights);
    }
  }
}

// Half of the gradients are sent before the backward pass ends; the results are the same.
TEST(MultiRankTraining, MatchesSingleRankWithManyBuckets) {
  ExperimentConfig config = small_run("ln", 8);
  config.model.embed_dim = 320;
  config.model.drop_path = config.model.dropout = 0;
  const How how{.steps = 2, .noise = 0};  // the initial weights suffice, and are faster
  auto run = [&] { return learn_together<CountingTransport>(config, 2, how); };
  const Outcome alone = learn(config, nullptr, how);
  Deviation yardstick, deviation;
  config.train.micro_batch = 2;
  yardstick.add(learn(config, nullptr, how), alone);
  CountingTransport::exchanges = 0;
  const std::vector<Outcome> ranks = run();
  // Per rank and step one exchange for each half of the blocks; the rest is a small message.
  EXPECT_EQ(CountingTransport::exchanges, 2 * how.steps * 2);
  expect_same_bits(ranks[1], ranks[0]);
  deviation.add(ranks[0], alone);
  expect_within(deviation, yardstick);
  // A recomputed block completes its gradients all at once, so the buckets differ.
  config.train.checkpoint_blocks = true;
  expect_same_bits(run()[0], ranks[0]);
}

// --- a skipped step -----------------------------------------------------------------------------

// Three steps of three ranks: a good one, one that is bad on some ranks, and a good one.
struct BadStep {
  std::function<void(int rank, Fields& batch)> spoil;
  std::function<void(ParameterStore& store)> prepare = [](ParameterStore&) {};
  double lr = 0.1;
};
struct Spoilt {
  std::vector<StepReport> reports;
  Outcome before, after, end;  // around the bad step; at the end
};
std::vector<Spoilt> learn_with(const BadStep& bad, const ExperimentConfig& config) {
  return on_ranks(3, [&](Communicator& ranks) {
    ClassifyLearner learner(config, kCpu, &ranks);
    perturb(learner.parameters());
    bad.prepare(learner.parameters());
    Spoilt s;
    for (int i = 0; i < 3; ++i) {
      Fields batch = batch_of(config, i, &ranks);
      if (i == 1) {
        s.before = outcome_of(learner);
        bad.spoil(ranks.rank(), batch);
      }
      s.reports.push_back(take_step(learner, batch, i, bad.lr));
      if (i == 1) s.after = outcome_of(learner);
    }
    s.end = outcome_of(learner);
    return s;
  });
}

void expect_left_out(const std::vector<Spoilt>& ranks) {
  for (const Spoilt& s : ranks) {
    EXPECT_TRUE(s.reports[0].finite);
    EXPECT_FALSE(s.reports[1].finite);
    EXPECT_TRUE(s.reports[2].finite);
    expect_same_bits(s.after, s.before);
    EXPECT_EQ(s.end.updates, 2);
    expect_same_bits(s.end, ranks[0].end);
    EXPECT_TRUE(std::isfinite(max_abs(doubles(s.end.weights()))));
    EXPECT_FALSE(same_bits(s.end.weights(), s.after.weights()));
  }
}

TEST(MultiRankTraining, SkipsStepIfOneRankIsNotFinite) {
  for (const char* norm : {"bn", "power"}) {
    for (int bad : {0, 2}) {
      SCOPED_TRACE(cat(norm, ", a NaN on rank ", bad));
      ExperimentConfig config = small_run(norm);
      config.train.micro_batch = 2;
      BadStep step{[bad](int rank, Fields& batch) {
        if (rank == bad) batch.at("image").data<float>()[7] = NAN;
      }};
      expect_left_out(learn_with(step, config));
    }
  }
}

// The loss is finite on all ranks, but the gradient of the head overflows: a label share of 1e34
// meets features of 1e6. The head's weight is 0, so the loss does not depend on the features.
TEST(MultiRankTraining, SkipsStepIfGradientOfOneRankOverflows) {
  BadStep step;
  step.prepare = [](ParameterStore& store) {
    Tensor weight = store.find("head.weight")->variable.value();
    weight.zero();
    Tensor bias = store.find("norm.bias")->variable.value();
    bias.copy_from(Tensor::full(bias.shape(), DType::kFloat32, 1e6));
  };
  step.spoil = [](int rank, Fields& batch) {
    if (rank == 1) batch.at("label_share").data<float>()[1] = 1e34f;
  };
  step.lr = 1e-8;
  const std::vector<Spoilt> ranks = learn_with(step, small_run("bn"));
  for (const Spoilt& s : ranks) {
    EXPECT_TRUE(std::isfinite(s.reports[1].loss)) << s.reports[1].loss;
    EXPECT_FALSE(std::isfinite(s.reports[1].grad_norm)) << s.reports[1].grad_norm;
  }
  expect_left_out(ranks);
}

// --- buffers ------------------------------------------------------------------------------------

// The buffers with this name in all blocks, concatenated.
Doubles buffers(Learner& learner, const std::string& name) {
  Doubles all;
  for (const Buffer& b : learner.parameters().buffers()) {
    if (!b.name.ends_with("." + name)) continue;
    const Doubles one = doubles(b.value);
    all.insert(all.end(), one.begin(), one.end());
  }
  EXPECT_FALSE(all.empty()) << name;
  return all;
}

// After a step, running statistics are the mean of the ranks' separate statistics.
TEST(MultiRankTraining, AveragesRunningStatistics) {
  ExperimentConfig config = small_run("bn");
  config.model.drop_path = config.model.dropout = 0;
  auto first_step = [&](Learner& learner, const Fields& batch) {
    perturb(learner.parameters());
    take_step(learner, batch, 0);
    return std::pair(buffers(learner, "running_mean"), buffers(learner, "running_var"));
  };
  for (int size : {2, 3, 4}) {  // 4: shares of 4, 4, 2 and 2 rows have equal weight
    SCOPED_TRACE(cat(size, " ranks"));
    std::vector<Doubles> own;
    Doubles mean;
    for (int rank = 0; rank < size; ++rank) {
      const auto rows = rows_of_rank(config.train.batch_size, rank, size);
      ClassifyLearner learner(config);
      const auto [means, variances] = first_step(learner, rows_of(global_batch(config, 0), rows));
      own.push_back(means);
      own.back().insert(own.back().end(), variances.begin(), variances.end());
      mean.resize(own.back().size());
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own.back()[i] / size;
    }
    EXPECT_GT(distance(own[0], mean), 1e-3);
    const auto ranks = on_ranks(size, [&](Communicator& r) {
      ClassifyLearner learner(config, kCpu, &r);
      return first_step(learner, batch_of(config, 0, &r));
    });
    for (const auto& [means, variances] : ranks) {
      Doubles got = means;
      got.insert(got.end(), variances.begin(), variances.end());
      // A sum of `size` numbers and a division, each rounded to float32.
      EXPECT_LE(max_abs_difference(got, mean),
                (size + 1) * unit_roundoff(DType::kFloat32) * max_abs(mean));
    }
  }
}

TEST(MultiRankTraining, CountsPowerNormStepsAsIntegers) {
  ExperimentConfig config = small_run("power");
  config.train.micro_batch = 2;
  const auto counts = on_ranks(3, [&](Communicator& ranks) {
    ClassifyLearner learner(config, kCpu, &ranks);
    Doubles last;
    for (int i = 0; i < 7; ++i) {
      take_step(learner, batch_of(config, i, &ranks), i);
      last = buffers(learner, "iters");
      for (double n : last) EXPECT_EQ(n, i + 1);
    }
    return last;
  });
  EXPECT_EQ(counts[2], counts[0]);
}

}  // namespace
}  // namespace dtn
