// Frozen parameters stay bit-identical and cost nothing.
#include "train/freeze.h"

#include <map>

#include "small_run.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr int kSteps = 4;

const FreezeConfig kBackbone{true, {}};
const FreezeConfig kPatterns{false, {"patch_embed.*", "*_token", "blocks.?.norm1.*", "*.bias"}};

struct Store {
  Outcome outcome;
  std::map<std::string, bool> frozen;
  std::map<std::string, Doubles> before, after, average, gradient;
  std::vector<std::map<std::string, Doubles>> moments;
  double norm_of_live = 0;  // in the last gradient
};

std::map<std::string, Doubles> by_name(const ParameterStore& store, const Tensor& flat) {
  std::map<std::string, Doubles> values;
  for (const Parameter& p : store.parameters()) {
    values[p.name] = doubles(ParameterStore::view(flat, p));
  }
  return values;
}

Store train(const ExperimentConfig& config, Communicator* ranks = nullptr) {
  ClassifyLearner learner(config, kCpu, ranks);
  perturb(learner.parameters());
  learner.average()->values().copy_from(learner.parameters().values());
  Store result;
  const ParameterStore& store = learner.parameters();
  result.before = by_name(store, store.values());
  for (int i = 0; i < kSteps; ++i) {
    const StepReport report = take_step(learner, batch_of(config, i, ranks), i);
    result.outcome.losses.push_back(report.loss);
    result.outcome.norms.push_back(report.grad_norm);
  }
  const Outcome end = outcome_of(learner);
  result.outcome.tensors = end.tensors;
  result.outcome.updates = end.updates;
  result.after = by_name(store, store.values());
  result.average = by_name(store, learner.average()->values());
  result.gradient = by_name(store, learner.parameters().gradients());
  for (const auto& [name, flat] : learner.optimizer().state()) {
    result.moments.push_back(by_name(store, flat));
  }
  double squares = 0;
  for (const Parameter& p : store.parameters()) {
    result.frozen[p.name] = p.frozen;
    if (p.frozen) continue;
    for (double g : result.gradient[p.name]) squares += g * g;
  }
  result.norm_of_live = std::sqrt(squares);
  return result;
}

void expect_frozen_and_alive(const Store& s) {
  for (const auto& [name, frozen] : s.frozen) {
    if (!frozen) {
      if (!name.ends_with("pos_proj.bias")) {
        EXPECT_NE(s.after.at(name), s.before.at(name)) << name;
      }
      continue;
    }
    EXPECT_EQ(s.after.at(name), s.before.at(name)) << name;
    EXPECT_EQ(s.average.at(name), s.before.at(name)) << name;
    EXPECT_EQ(max_abs(s.gradient.at(name)), 0) << name;
    for (const auto& moments : s.moments) EXPECT_EQ(max_abs(moments.at(name)), 0) << name;
  }
}

TEST(Freezing, KeepsFrozenParametersBitForBit) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    for (const FreezeConfig& freeze : {kBackbone, kPatterns}) {
      SCOPED_TRACE(cat(row.name(), freeze.backbone ? ", backbone" : ", patterns"));
      ExperimentConfig config = small_run("dtn");
      use_optimizer(config, row.name());
      config.optim.weight_decay = 0.1;
      config.optim.clip_grad_norm = 1.0;
      config.train.freeze = freeze;
      if (row.name() == "muon" && freeze.backbone) {
        EXPECT_THROW(train(config), ConfigError) << "all of its matrices are frozen";
        continue;
      }
      const Store s = train(config);
      expect_frozen_and_alive(s);
      EXPECT_NEAR(s.outcome.norms.back(), s.norm_of_live, 1e-5 * s.norm_of_live)
          << "clipping counts what is alive";
      const bool head_alone = std::ranges::all_of(
          s.frozen, [](const auto& p) { return p.second != p.first.starts_with("head"); });
      EXPECT_EQ(head_alone, freeze.backbone);
    }
  }
}

// Buffers too: a frozen backbone uses its statistics unchanged.
TEST(Freezing, RunsFrozenBackboneInEvaluationMode) {
  for (const char* norm : {"bn", "ln"}) {
    ExperimentConfig config = small_run(norm);
    config.train.freeze = kBackbone;
    ExperimentConfig still = config;
    still.model.drop_path = still.model.dropout = 0;
    const Store moving = train(config);
    expect_same_bits(moving.outcome, train(still).outcome);
    ClassifyLearner learner(config);
    const ParameterStore& store = learner.parameters();
    take_step(learner, batch_of(config, 0, nullptr), 0);
    for (const Buffer& b : store.buffers()) {
      const Tensor average = ParameterStore::view(learner.average()->values(), b);
      EXPECT_TRUE(same_bits(average, b.value)) << b.name;
      EXPECT_EQ(max_abs(doubles(b.value)), b.init == InitKind::kOnes ? 1 : 0) << b.name;
    }
  }
}

TEST(Freezing, UpdatesStatisticsOfLayersFrozenByPattern) {
  ExperimentConfig config = small_run("bn");
  config.train.freeze = {false, {"blocks.*"}};
  ClassifyLearner learner(config);
  take_step(learner, batch_of(config, 0, nullptr), 0);
  for (const Buffer& b : learner.parameters().buffers()) {
    if (b.name.ends_with("running_mean")) {
      EXPECT_GT(max_abs(doubles(b.value)), 0) << b.name;
    }
  }
}

TEST(Freezing, IsSameForRanksAndMicroBatches) {
  for (const FreezeConfig& freeze : {kBackbone, kPatterns}) {
    ExperimentConfig config = small_run("dtn");
    config.train.freeze = freeze;
    const Store alone = train(config);
    const auto together = on_ranks(2, [&](Communicator& ranks) { return train(config, &ranks); });
    expect_same_bits(together[0].outcome, together[1].outcome);
    expect_frozen_and_alive(together[0]);
    EXPECT_LE(distance(together[0].outcome.weights(), alone.outcome.weights()), 1e-5);
    config.train.micro_batch = 4;
    const Store cut = train(config);
    expect_frozen_and_alive(cut);
    EXPECT_LE(distance(cut.outcome.weights(), alone.outcome.weights()), 1e-5);
  }
}

TEST(Freezing, SupportsCheckpointedBlocksAndBfloat16) {
  for (const FreezeConfig& freeze : {kBackbone, kPatterns}) {
    ExperimentConfig config = small_run("dtn");
    config.train.freeze = freeze;
    for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      config.train.precision = precision;
      config.train.checkpoint_blocks = false;
      const Store saved = train(config);
      expect_frozen_and_alive(saved);
      config.train.checkpoint_blocks = true;
      expect_same_bits(train(config).outcome, saved.outcome);
    }
  }
}

// If nothing before the head is trained, that part records nothing and has no backward pass.
TEST(Freezing, RecordsNothingBeforeFirstTrainableLayer) {
  for (bool checkpoint_blocks : {false, true}) {
    ExperimentConfig config = small_run("dtn");
    const auto recorded = [&](const FreezeConfig& freeze) {
      Classify task(config);
      ParameterStore& store = task.model().parameters();
      freeze_parameters(freeze, store);
      Tape tape;
      Context ctx;
      ctx.tape = &tape;
      ctx.mode.checkpoint_blocks = checkpoint_blocks;
      std::vector<Term> terms;
      task.loss(ctx, batch_of(config, 0, nullptr), terms);
      return tape.size();
    };
    EXPECT_LE(recorded(kBackbone), 3u) << "the head, a conversion and the loss";
    EXPECT_GT(recorded({}), 6u);
    EXPECT_LT(recorded({false, {"patch_embed.*", "pos_embed", "blocks.0.*"}}), recorded({}));
  }
}

// Every normalizer of the registry works without the gradients of its parameters.
TEST(Freezing, FreezesNormsOnly) {
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    SCOPED_TRACE(schema.type);
    ExperimentConfig config = small_run(schema.type);
    config.optim.clip_grad_norm.reset();
    const Store all = train(config);
    config.train.freeze = {false, {"*norm*"}};
    const Store some = train(config);
    expect_frozen_and_alive(some);
    EXPECT_EQ(some.outcome.losses[0], all.outcome.losses[0]);
    EXPECT_LE(some.outcome.norms[0], all.outcome.norms[0]);
  }
}

std::string refusal(const FreezeConfig& freeze) {
  Classify task(small_run("ln"));
  try {
    freeze_parameters(freeze, task.model().parameters());
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Freezing, RejectsUnmatchedPatternsAndFreezingEverything) {
  EXPECT_NE(refusal({false, {"blocks.9.*"}}).find("blocks.9.*"), std::string::npos);
  EXPECT_NE(refusal({false, {"*"}}).find("no trainable parameter"), std::string::npos);
  EXPECT_EQ(refusal(kBackbone), "");
  EXPECT_EQ(refusal({}), "");
}

TEST(Freezing, IsReported) {
  Classify task(small_run("ln"));
  ParameterStore& store = task.model().parameters();
  EXPECT_EQ(describe_frozen(store), "");
  freeze_parameters(kBackbone, store);
  const std::string told = describe_frozen(store);
  EXPECT_NE(told.find(cat(store.parameters().size() - 2, " of ", store.parameters().size())),
            std::string::npos)
      << told;
}

}  // namespace
}  // namespace dtn
