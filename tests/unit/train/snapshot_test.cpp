// A run resumed from its checkpoint continues with the same bits.
#include "train/snapshot.h"

#include "dtn/config/load.h"
#include "dtn/tasks/registries.h"
#include "small_run.h"

namespace dtn {
namespace {

using namespace dtn::test;

// A config as loaded from a file: with a preset and all options.
ExperimentConfig loaded_run(const std::string& norm) {
  ExperimentConfig config = small_run(norm);
  config.model.preset = "vit_t_star";
  return parse_experiment(to_yaml(config), "test", {}, standard_registries().schemas());
}

const RunProgress kProgress{.step = 3,
                            .evaluated_step = 2,
                            .best_step = 2,
                            .best = 71.25,
                            .bad_steps = 1,
                            .steps_per_epoch = 2};

// The checkpoint of a run after three steps.
CheckpointData snapshot_of(const ExperimentConfig& config) {
  ClassifyLearner learner(config);
  perturb(learner.parameters());
  for (int i = 0; i < 3; ++i) take_step(learner, global_batch(config, i), i);
  RunProgress progress = kProgress;
  CheckpointData data = take_snapshot(config, learner, progress);
  // Copies the tensors, as if read from a file: they are handles to the live run.
  for (NamedTensors* part : {&data.model, &data.ema, &data.state}) {
    for (auto& [name, tensor] : *part) tensor = tensor.clone();
  }
  return data;
}

RunProgress restored(const CheckpointData& data, const ExperimentConfig& config) {
  ClassifyLearner learner(config);
  RunProgress progress;
  restore_snapshot(data, config, standard_registries().schemas(), learner, progress);
  return progress;
}

TEST(Snapshot, ResumesBitForBit) {
  for (const char* norm : {"bn", "dtn"}) {
    for (const char* optimizer : {"sgd", "adamw", "lion", "lamb", "muon"}) {
      for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
        SCOPED_TRACE(cat(norm, ", ", optimizer, precision == Precision::kBFloat16 ? ", bf16" : ""));
        ExperimentConfig config = loaded_run(norm);
        use_optimizer(config, optimizer);
        config.optim.layer_decay = 0.75;
        config.train.precision = precision;
        if (optimizer == std::string("lion")) {
          config.train.freeze.patterns = {"patch_embed.*", "blocks.0.*"};
        }
        config.train.freeze.backbone = optimizer == std::string("lamb");
        config.train.ema_warmup = norm == std::string("dtn");  // counts updates, like the optimizer
        ClassifyLearner unbroken(config);
        perturb(unbroken.parameters());
        unbroken.average()->values().copy_from(unbroken.parameters().values());
        for (int i = 0; i < 3; ++i) take_step(unbroken, global_batch(config, i), i);
        RunProgress progress = kProgress;
        const CheckpointData data = take_snapshot(config, unbroken, progress);

        ClassifyLearner resumed(config);
        RunProgress found;
        restore_snapshot(data, config, standard_registries().schemas(), resumed, found);
        EXPECT_EQ(found.step, 3);
        EXPECT_EQ(found.evaluated_step, 2);
        EXPECT_EQ(found.best_step, 2);
        EXPECT_EQ(found.best, 71.25);
        EXPECT_EQ(found.bad_steps, 1);
        EXPECT_EQ(found.steps_per_epoch, 2);
        expect_same_bits(outcome_of(resumed), outcome_of(unbroken));
        take_step(unbroken, global_batch(config, 3), 3);
        take_step(resumed, global_batch(config, 3), 3);
        expect_same_bits(outcome_of(resumed), outcome_of(unbroken));
      }
    }
  }
}

TEST(Snapshot, ResumesLateParametersBitForBit) {
  for (const char* optimizer : {"adamw", "sgd", "lamb"}) {
    for (int stop : {1, 3}) {  // before and after the first late update
      SCOPED_TRACE(cat(optimizer, ", ", stop, " steps"));
      ExperimentConfig config = loaded_run("dtn");
      use_optimizer(config, optimizer);
      LateHead unbroken(config), resumed(config);
      perturb(unbroken.learner.parameters());
      for (int i = 0; i < stop; ++i) take_step(unbroken.learner, global_batch(config, i), i);
      RunProgress progress = kProgress, found;
      const CheckpointData data = take_snapshot(config, unbroken.learner, progress);
      EXPECT_EQ(data.state_metadata.at("late_updates"), stop == 1 ? "0" : "1");
      restore_snapshot(data, config, standard_registries().schemas(), resumed.learner, found);
      EXPECT_EQ(resumed.learner.late_updates(), unbroken.learner.late_updates());
      for (int i = stop; i < 5; ++i) {
        take_step(unbroken.learner, global_batch(config, i), i);
        take_step(resumed.learner, global_batch(config, i), i);
      }
      EXPECT_EQ(resumed.learner.late_updates(), 3);
      expect_same_bits(outcome_of(resumed.learner), outcome_of(unbroken.learner));
    }
  }
  EXPECT_FALSE(snapshot_of(loaded_run("ln")).state_metadata.contains("late_updates"));
}

TEST(Snapshot, StoresDataPositionOfRun) {
  const CheckpointData data = snapshot_of(loaded_run("ln"));
  EXPECT_EQ(data.step, 3);
  EXPECT_EQ(data.state_metadata.at("epoch"), "1");
  EXPECT_EQ(data.state_metadata.at("position"), "1");
  EXPECT_EQ(data.state_metadata.at("seed"), "3");
  EXPECT_EQ(data.state_metadata.at("best"), "71.25");
}

// Before there were tasks, this figure was called best_top1.
TEST(Snapshot, ReadsOldNameOfBestFigure) {
  const ExperimentConfig config = loaded_run("ln");
  CheckpointData data = snapshot_of(config);
  data.state_metadata["best_top1"] = "62.5";
  EXPECT_EQ(restored(data, config).best, 71.25) << "the new name counts";
  data.state_metadata.erase("best");
  EXPECT_EQ(restored(data, config).best, 62.5);
  EXPECT_EQ(restored(data, config).best_step, 2);
  data.state_metadata.erase("best_top1");
  EXPECT_THROW(restored(data, config), DataError);
}

TEST(Snapshot, RejectsAnotherModelOrOptimizer) {
  const ExperimentConfig config = loaded_run("ln");
  const CheckpointData data = snapshot_of(config);
  ExperimentConfig other = config;
  other.model.depth = 2;
  EXPECT_THROW(restored(data, other), ConfigError);
  other = config;
  other.optim.name = "adamw";
  EXPECT_THROW(restored(data, other), ConfigError);
  other = config;
  other.train.ema.reset();
  other.optim.lr *= 2;  // only a warning
  other.data.workers = 7;
  EXPECT_EQ(restored(data, other).step, 3);
  CheckpointData without = data;
  without.ema.clear();
  EXPECT_THROW(restored(without, config), ConfigError) << "an average that is not there";
}

}  // namespace
}  // namespace dtn
