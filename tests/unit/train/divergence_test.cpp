// Diverging runs: the remaining checkpoints, the summary, and resuming.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "temp_folder.h"
#include "tensors.h"
#include "texts.h"
#include "thread_ranks.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "two_views_config.h"

namespace dtn::test {
namespace {

namespace fs = std::filesystem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Stops a step like a kill: nothing is saved.
struct Killed : std::runtime_error {
  Killed() : std::runtime_error("killed") {}
};

// The losses of a run that are not finite. Steps count from 1.
struct Script {
  std::set<std::int64_t> bad_steps;
  // Losses by step. The default is 1 / (step + 1), or NaN after a bad step.
  std::map<std::int64_t, double> evaluations;
  std::optional<std::int64_t> kill_at = {};  // before that step
  bool evaluates_loss = true;
};

class ScriptMeter : public WordMeter {
 public:
  ScriptMeter(double loss, bool has_loss) : loss_(loss), has_loss_(has_loss) {}
  Metrics result() const override {
    const char* name = has_loss_ ? "loss" : "error";
    return {.values = {{name, loss_}},
            .primary = name,
            .higher_is_better = false,
            .text = cat(name, " ", loss_)};
  }

 private:
  double loss_;
  bool has_loss_;
};

class ScriptedTask : public TwoViewsTask {
 public:
  ScriptedTask(const TaskSetup& setup, const Script& script)
      : TwoViewsTask(setup), script_(script) {}
  Variable loss(Context& ctx, const Fields& batch, std::vector<Term>& logged) override {
    step_ = std::int64_t{ctx.rng.step} + 1;
    if (script_.kill_at == step_) throw Killed();
    const Variable loss = TwoViewsTask::loss(ctx, batch, logged);
    return script_.bad_steps.contains(step_) ? primitive::affine(ctx, loss, kNaN) : loss;
  }
  std::unique_ptr<Meter> meter() const override {
    const auto found = script_.evaluations.find(step_);
    double loss = 1 / static_cast<double>(step_ + 1);
    if (script_.bad_steps.contains(step_)) loss = kNaN;
    if (found != script_.evaluations.end()) loss = found->second;
    return std::make_unique<ScriptMeter>(loss, script_.evaluates_loss);
  }

 private:
  const Script& script_;
  std::int64_t step_ = 0;
};

class Divergence : public ::testing::Test {
 protected:
  Divergence() {
    registries_.tasks.add({{"scripted", "fails on demand", {{"loss", "loss", false}}},
                           [this](const TaskSetup& setup) {
                             return std::make_unique<ScriptedTask>(setup, script_);
                           }});
    config_ = two_views_config();
    config_.task = "scripted";
    config_.schedule.steps = 12;
    config_.train.checkpoint_every = {2, false};
    config_.train.eval_every = {4, false};
    config_.train.keep = 1;
  }

  RunStatus go(Communicator* ranks = nullptr) {
    TrainerOptions options;
    options.output = run_;
    options.ranks = ranks;
    options.registries = &registries_;
    if (!ranks || ranks->is_root()) options.resume_from = resolve_resume("auto", run_);
    return train(config_, options);
  }
  // Runs until it diverges; returns the message.
  std::string diverge() {
    try {
      go();
    } catch (const DivergedError& e) {
      return e.what();
    }
    ADD_FAILURE() << "the run did not diverge";
    return {};
  }
  void kill_before(std::int64_t step) {
    script_.kill_at = step;
    EXPECT_THROW(go(), Killed);
    script_.kill_at.reset();
  }

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints")) {
      all.insert(entry.path().filename());
    }
    return all;
  }
  std::string link(const char* name) const {
    std::error_code none;
    return fs::read_symlink(run_ / "checkpoints" / name, none).string();
  }
  nlohmann::json summary() const {
    std::ifstream file(run_ / "summary.json");
    return nlohmann::json::parse(file, nullptr, false);
  }
  // Changes the metadata of the last checkpoint.
  template <class Change>
  void change_state(Change change) const {
    const fs::path file = run_ / "checkpoints" / "last" / "state.safetensors";
    TensorFile state = read_safetensors(file);
    change(state.metadata);
    write_safetensors(file, state.tensors, state.metadata);
  }

  const TempFolder temporary_;
  const fs::path run_ = temporary_.path() / "run";
  Script script_;
  Registries registries_;
  ExperimentConfig config_;
};

using Names = std::set<std::string>;

TEST_F(Divergence, ReturnsToNewestFiniteCheckpoint) {
  script_.bad_steps = {7, 8, 9};  // the update of step 6 damaged the weights
  const std::string message = diverge();
  expect_contains(message, "not finite in steps 7 to 9");
  expect_contains(
      message, "The newest checkpoint with a finite loss is " + checkpoint_path(run_, 4).string());
  expect_contains(message, "The checkpoint after it is now " +
                               (run_ / "checkpoints/diverged-step-00000006").string());
  expect_contains(message, "Lower optim.lr, lengthen schedule.warmup_epochs, or lower optim.clip");
  EXPECT_EQ(link("last"), "step-00000004");
  EXPECT_EQ(link("best"), "step-00000004");
  EXPECT_EQ(names(),
            (Names{"best", "last", "confirmed", "step-00000004", "diverged-step-00000006"}));
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 4));
}

TEST_F(Divergence, SummaryReportsDivergenceUntilRunContinues) {
  script_.bad_steps = {7, 8, 9};
  diverge();
  const nlohmann::json diverged = summary();
  EXPECT_EQ(diverged.at("diverged"), true);
  EXPECT_EQ(diverged.at("steps"), 9);
  EXPECT_EQ(diverged.at("loss"), 0.2) << "of the evaluation at step 4";
  EXPECT_EQ(diverged.at("evaluated_step"), 4);
  EXPECT_EQ(diverged.at("count"), 48);
  EXPECT_EQ(diverged.at("last_checkpoint"), "checkpoints/step-00000004");
  EXPECT_EQ(diverged.at("set_aside"), "checkpoints/diverged-step-00000006");
  EXPECT_EQ(diverged.at("best").at("step"), 4);
  script_.bad_steps.clear();
  kill_before(6);
  EXPECT_FALSE(fs::exists(run_ / "summary.json")) << "it is under way";
  EXPECT_EQ(go(), RunStatus::kFinished);
  EXPECT_FALSE(summary().contains("diverged"));
  EXPECT_EQ(summary().at("steps"), 12);
}

TEST_F(Divergence, ResumedRunMatchesUndivergedRunBitForBit) {
  script_.bad_steps = {7, 8, 9};
  diverge();
  script_.bad_steps.clear();
  go();
  const CheckpointData resumed = load_checkpoint(run_ / "checkpoints" / "last");
  fs::remove_all(run_);
  go();
  const CheckpointData whole = load_checkpoint(run_ / "checkpoints" / "last");
  EXPECT_EQ(resumed.state_metadata, whole.state_metadata);
  ASSERT_EQ(resumed.model.size(), whole.model.size());
  for (std::size_t i = 0; i < whole.model.size(); ++i) {
    EXPECT_TRUE(same_bits(resumed.model[i].second, whole.model[i].second)) << whole.model[i].first;
  }
}

TEST_F(Divergence, RepeatedDivergenceKeepsConfirmedCheckpoint) {
  script_.bad_steps = {7, 8, 9};
  for (int i = 0; i < 3; ++i) {
    diverge();
    EXPECT_EQ(link("last"), "step-00000004");
    EXPECT_EQ(names(),
              (Names{"best", "last", "confirmed", "step-00000004", "diverged-step-00000006"}));
  }
  // After another divergence only the newest checkpoint set aside stays.
  script_.bad_steps = {11, 12, 13};
  config_.schedule.steps = 14;
  diverge();
  EXPECT_EQ(link("last"), "step-00000008");
  EXPECT_EQ(names(),
            (Names{"best", "last", "confirmed", "step-00000008", "diverged-step-00000010"}));
}

TEST_F(Divergence, RestartsWithoutConfirmedCheckpoint) {
  script_.bad_steps = {3, 4, 5};
  for (int i = 0; i < 2; ++i) {
    const std::string message = diverge();
    expect_contains(message, "No checkpoint in " + run_.string() + " has a finite loss");
    expect_contains(message, "start again with --resume auto");
    EXPECT_EQ(names(), (Names{"diverged-step-00000002"}));
    EXPECT_EQ(summary().at("last_checkpoint"), nullptr);
    EXPECT_FALSE(summary().contains("loss"));
    EXPECT_EQ(find_resumable(run_), std::nullopt);
  }
  script_.bad_steps = {1, 2, 3};  // nothing was saved
  expect_contains(diverge(), "No checkpoint");
  script_.bad_steps.clear();
  EXPECT_EQ(go(), RunStatus::kFinished);
}

TEST_F(Divergence, LeavesUnconfirmedCheckpointAfterKill) {
  kill_before(7);  // step 6 is saved but not confirmed
  EXPECT_EQ(link("last"), "step-00000006");
  EXPECT_EQ(link("confirmed"), "step-00000004");
  script_.bad_steps = {7, 8, 9};
  diverge();
  EXPECT_EQ(link("last"), "step-00000004");
  EXPECT_TRUE(names().contains("diverged-step-00000006"));
  script_.bad_steps.clear();
  kill_before(7);
  kill_before(8);  // step 7 was finite
  EXPECT_EQ(link("confirmed"), "step-00000006");
  script_.bad_steps = {8, 9, 10};
  expect_contains(diverge(), checkpoint_path(run_, 6).string());
  EXPECT_EQ(link("last"), "step-00000006");
}

TEST_F(Divergence, CompletesRetreatInterruptedByKill) {
  script_.bad_steps = {7, 8, 9};
  kill_before(7);
  // `last` points back already, but the unconfirmed checkpoint has its original name.
  fs::remove(run_ / "checkpoints" / "last");
  fs::create_symlink("step-00000004", run_ / "checkpoints" / "last");
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 4));
  diverge();
  EXPECT_EQ(names(),
            (Names{"best", "last", "confirmed", "step-00000004", "diverged-step-00000006"}));
}

TEST_F(Divergence, SkipsSingleBadStepAndDoesNotSaveIt) {
  script_.bad_steps = {2, 5, 6, 8, 11};
  config_.train.keep = 99;
  config_.train.eval_every = {2, false};
  script_.evaluations = {{2, 0.1}, {6, 0.05}, {8, 0.01}};
  EXPECT_EQ(go(), RunStatus::kFinished);
  // Due at 2, 6 and 8, but written at the next finite step.
  EXPECT_EQ(names(), (Names{"best", "last", "step-00000003", "step-00000004", "step-00000007",
                            "step-00000009", "step-00000010", "step-00000012"}));
  EXPECT_EQ(link("best"), "step-00000012") << "no checkpoint was written from the better ones";
}

TEST_F(Divergence, FiniteEvaluationAfterBadStepConfirmsCheckpoint) {
  script_.bad_steps = {7, 8, 9};  // bad data, for example: the weights are good
  script_.evaluations = {{8, 0.1}};
  expect_contains(diverge(), checkpoint_path(run_, 6).string());
  EXPECT_EQ(link("last"), "step-00000006");
  EXPECT_EQ(link("best"), "step-00000004");
}

TEST_F(Divergence, SavesLastStepEvenIfSkipped) {
  script_.bad_steps = {11, 12};
  script_.evaluations = {{12, 0.05}};
  EXPECT_EQ(go(), RunStatus::kFinished);
  EXPECT_EQ(link("last"), "step-00000012");
  EXPECT_EQ(link("confirmed"), "") << "its evaluation was finite, which it says itself";
}

TEST_F(Divergence, NaNIsNeverBest) {
  script_.evaluations = {{4, kNaN}, {8, kNaN}, {12, 3}};
  EXPECT_EQ(go(), RunStatus::kFinished);
  EXPECT_EQ(link("best"), "step-00000012");
  EXPECT_EQ(summary().at("best").at("loss"), 3);
  // A best value of NaN from an earlier version is replaced.
  fs::remove_all(run_);
  script_.evaluations = {{8, 7}, {12, 9}};
  kill_before(6);
  change_state([](StringMap& metadata) { metadata["best"] = "nan"; });
  EXPECT_EQ(go(), RunStatus::kFinished);
  EXPECT_EQ(link("best"), "step-00000008");
}

TEST_F(Divergence, NonFiniteFinalEvaluationIsDivergence) {
  script_.evaluations = {{12, kNaN}};
  const std::string message = diverge();
  expect_contains(message, "the loss of the last evaluation, at step 12, was not finite");
  EXPECT_EQ(link("last"), "step-00000010");
  EXPECT_EQ(link("best"), "step-00000008");
  EXPECT_TRUE(names().contains("diverged-step-00000012"));
  EXPECT_EQ(summary().at("diverged"), true);
  EXPECT_EQ(summary().at("steps"), 12);
  EXPECT_EQ(summary().at("evaluated_step"), 8);
  diverge();
  EXPECT_EQ(link("last"), "step-00000010");
  script_.evaluations.clear();
  EXPECT_EQ(go(), RunStatus::kFinished);
  EXPECT_FALSE(summary().contains("diverged"));
}

TEST_F(Divergence, ReportsDivergenceAfterKillBeforeSummary) {
  script_.evaluations = {{12, kNaN}};
  diverge();
  const fs::path checkpoints = run_ / "checkpoints";
  fs::rename(checkpoints / "diverged-step-00000012", checkpoints / "step-00000012");
  fs::remove(checkpoints / "last");
  fs::create_symlink("step-00000012", checkpoints / "last");
  fs::remove(run_ / "summary.json");
  script_.evaluations = {{0, kNaN}};  // no step is taken: the last evaluation is repeated
  expect_contains(diverge(), "the last evaluation, at step 12,");
  EXPECT_EQ(link("last"), "step-00000010");
  EXPECT_TRUE(names().contains("diverged-step-00000012"));
}

TEST_F(Divergence, TaskWithoutLossFigureDivergesByStepsOnly) {
  script_.evaluates_loss = false;
  config_.train.keep = 9;
  script_.evaluations = {{4, 0.5}, {8, 0.1}, {12, kNaN}};
  script_.bad_steps = {9, 10, 11};
  diverge();
  EXPECT_EQ(link("last"), "step-00000006");
  EXPECT_EQ(link("best"), "step-00000004") << "that of the confirmed one";
  EXPECT_EQ(summary().at("best"), nullptr);
  script_.bad_steps.clear();
  EXPECT_EQ(go(), RunStatus::kFinished);
  EXPECT_EQ(link("last"), "step-00000012") << "as it was written";
  EXPECT_EQ(link("best"), "step-00000008");
}

TEST_F(Divergence, SupportsFoldersOfEarlierVersions) {
  config_.train.keep = 9;
  kill_before(9);
  fs::remove(run_ / "checkpoints" / "confirmed");
  change_state([](StringMap& metadata) { metadata.erase(kConfirmedKey); });
  script_.bad_steps = {9, 10, 11};
  diverge();
  EXPECT_EQ(link("last"), "step-00000006") << "step 8 made more updates";
  EXPECT_TRUE(names().contains("diverged-step-00000008"));
  EXPECT_FALSE(names().contains("step-00000008"));
  script_.bad_steps.clear();
  EXPECT_EQ(go(), RunStatus::kFinished);
}

TEST_F(Divergence, ExtendedRunKeepsEarlierEnd) {
  EXPECT_EQ(go(), RunStatus::kFinished);
  EXPECT_EQ(names(), (Names{"best", "last", "step-00000012"}));
  config_.schedule.steps = 16;
  script_.bad_steps = {13, 14, 15};
  script_.evaluations = {{14, kNaN}};
  diverge();
  EXPECT_EQ(names(), (Names{"best", "last", "step-00000012"}));
  script_.bad_steps = {15, 16};
  script_.evaluations = {{16, 0.5}};
  kill_before(15);
  EXPECT_EQ(link("confirmed"), "step-00000012") << "step 14 is not";
  EXPECT_EQ(link("last"), "step-00000014");
  EXPECT_EQ(go(), RunStatus::kFinished);
}

TEST_F(Divergence, RewoundRunKeepsOtherSteps) {
  config_.train.keep = 9;
  kill_before(10);
  fs::remove(run_ / "checkpoints" / "last");
  fs::create_symlink("step-00000002", run_ / "checkpoints" / "last");
  script_.bad_steps = {4, 5, 6};
  diverge();
  EXPECT_EQ(link("last"), "step-00000002");
  // The best of the other run is none of this one, which had no evaluation with a finite loss.
  EXPECT_EQ(names(), (Names{"last", "confirmed", "step-00000002", "step-00000004", "step-00000006",
                            "step-00000008"}));
}

TEST_F(Divergence, AllRanksDiverge) {
  script_.bad_steps = {7, 8, 9};
  std::atomic<int> thrown = 0;
  testing::with_ranks(2, [&](Communicator& ranks) {
    try {
      go(&ranks);
    } catch (const DivergedError&) {
      ++thrown;
    }
  });
  EXPECT_EQ(thrown, 2);
  EXPECT_EQ(link("last"), "step-00000004");
}

}  // namespace
}  // namespace dtn::test
