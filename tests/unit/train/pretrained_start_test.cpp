// Runs of dino and supcon that start from weights: a teacher, a reset head, a frozen backbone.
#include "self_supervised_runs.h"

namespace dtn::test {
namespace {

// The schedule's first rate is 0, so one step changes no weight.
const char* const kOneStep = "schedule.steps=1";

void expect_near(const NamedTensors& found, const NamedTensors& wanted, const std::string& prefix,
                 double tolerance) {
  for (const auto& [name, tensor] : wanted) {
    if (!name.starts_with(prefix)) continue;
    EXPECT_LE(relative_distance(doubles(named(found, name)), doubles(tensor)), tolerance) << name;
  }
}

TEST(PretrainedStart, RunFolderMeansItsTeacher) {
  const TempFolder folder;
  TrainerOptions options;
  options.output = folder.path() / "first";
  ASSERT_EQ(train(golden_config("dino_frozen", "dino"), options), RunStatus::kFinished);
  const CheckpointData first = load_checkpoint(options.output / "checkpoints" / "last");
  ASSERT_FALSE(
      same_bits(named(first.ema, "backbone.cls_token"), named(first.model, "backbone.cls_token")));
  const FinishedRun second = run_of(golden_config(
      "dino_frozen", "dino", {"model.init_weights=" + options.output.string(), kOneStep}));
  expect_near(second.end.model, first.ema, "", 0);
  expect_near(second.end.ema, first.ema, "", 1e-6);
}

TEST(PretrainedStart, ResetsHead) {
  const ExperimentConfig config =
      golden_config("dino_frozen", "dino", {"model.init_head=reset", kOneStep});
  const FinishedRun run = run_of(config);
  const NamedTensors file = read_safetensors(*config.model.init_weights).tensors;
  expect_near(run.end.model, file, "backbone.", 0);
  const char* weight = "head.mlp.0.weight";
  EXPECT_GT(relative_distance(doubles(named(run.end.model, weight)), doubles(named(file, weight))),
            0.1);
  expect_near(run.end.ema, run.end.model, "head.", 1e-6);
}

TEST(PretrainedStart, FreezesBackbone) {
  for (const char* name : {"dino_frozen", "supcon"}) {
    SCOPED_TRACE(name);
    const ExperimentConfig config = golden_config(
        name, name == std::string("supcon") ? "supcon" : "dino", {"train.freeze=backbone"});
    const FinishedRun run = run_of(config);
    const NamedTensors file = read_safetensors(*config.model.init_weights).tensors;
    expect_near(run.end.model, file, "backbone.", 0);
    const char* weight = config.task == "dino" ? "head.mlp.0.weight" : "head.0.weight";
    EXPECT_FALSE(same_bits(named(run.end.model, weight), named(file, weight)));
  }
}

}  // namespace
}  // namespace dtn::test
