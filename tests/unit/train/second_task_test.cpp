// A user's task with a teacher, two views and a ragged field, through the whole trainer.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dtn/io/safetensors.h"
#include "dtn/models/weights.h"
#include "temp_folder.h"
#include "tensors.h"
#include "thread_ranks.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "two_views_config.h"

namespace dtn::test {
namespace {

namespace fs = std::filesystem;

class SecondTask : public ::testing::Test {
 protected:
  RunStatus run(const std::string& name, Communicator* ranks = nullptr) const {
    TrainerOptions options;
    options.output = folder_ / name;
    options.ranks = ranks;
    options.registries = &registries_;
    if (!ranks || ranks->is_root()) options.resume_from = resolve_resume("auto", options.output);
    return train(two_views_config(), options);
  }
  CheckpointData end_of(const std::string& name) const {
    return load_checkpoint(folder_ / name / "checkpoints" / "last");
  }

  const TempFolder temporary_;
  fs::path folder_ = temporary_.path();
  Registries registries_ = with_two_views();
};

void expect_same_bits(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(same_bits(a[i].second, b[i].second)) << a[i].first;
  }
}

double farthest(const NamedTensors& a, const NamedTensors& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Doubles x = doubles(a[i].second), y = doubles(b[i].second);
    for (std::size_t k = 0; k < x.size(); ++k) most = std::max(most, std::abs(x[k] - y[k]));
  }
  return most;
}

// The child of the next test, which kills it. It trains into the folder named in the environment.
constexpr const char* kFolderToTrainIn = "DTN_SECOND_TASK_FOLDER";
TEST_F(SecondTask, DISABLED_TrainsUntilItIsKilled) {
  const char* folder = std::getenv(kFolderToTrainIn);
  if (!folder) GTEST_SKIP() << "it is the child of another test";
  fs::remove(folder_);  // the destructor does not run
  folder_ = folder;
  run("killed");
  ::_exit(0);  // the parent owns the folder
}

// The child starts the program again. A forked child alone would wait for threads of earlier tests,
// which fork does not copy.
pid_t start_training_in(const fs::path& folder) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setenv(kFolderToTrainIn, folder.c_str(), 1);
  ::execl("/proc/self/exe", "unit_train", "--gtest_also_run_disabled_tests",
          "--gtest_filter=SecondTask.DISABLED_TrainsUntilItIsKilled", "--gtest_brief=1", nullptr);
  ::_exit(127);
}

TEST_F(SecondTask, ResumesAfterKillBitForBit) {
  const pid_t child = start_training_in(folder_);
  ASSERT_GE(child, 0);
  const fs::path seventh = checkpoint_path(folder_ / "killed", 7);
  const auto start = std::chrono::steady_clock::now();
  while (!fs::exists(seventh) &&
         std::chrono::steady_clock::now() - start < std::chrono::minutes(2)) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const CheckpointData cut_off = end_of("killed");
  EXPECT_GE(cut_off.step, 6);  // the seventh may be written but not yet linked as last
  EXPECT_LT(cut_off.step, 20) << "it was over before it was killed";

  EXPECT_EQ(run("killed"), RunStatus::kFinished);
  EXPECT_EQ(run("unbroken"), RunStatus::kFinished);
  const CheckpointData resumed = end_of("killed"), whole = end_of("unbroken");
  EXPECT_EQ(whole.step, 20);
  expect_same_bits(resumed.model, whole.model);
  expect_same_bits(resumed.ema, whole.ema);
  expect_same_bits(resumed.state, whole.state);  // moments, and the teacher
  EXPECT_EQ(resumed.state_metadata, whole.state_metadata);
  EXPECT_TRUE(std::ranges::any_of(
      whole.state, [](const auto& tensor) { return tensor.first == "teacher/head.weight"; }));
}

TEST_F(SecondTask, LogsTermsAndFigures) {
  run("logged");
  std::ifstream file(folder_ / "logged" / "metrics.jsonl");
  const std::string lines((std::istreambuf_iterator<char>(file)), {});
  for (const char* name : {"\"loss_large\":", "\"loss_small\":", "\"score\":", "\"words\":141.0"}) {
    EXPECT_NE(lines.find(name), std::string::npos) << name << " in " << lines;
  }
}

TEST_F(SecondTask, LoadsWeightsByName) {
  run("trained");
  const fs::path weights = folder_ / "trained" / "checkpoints" / "last" / "model.safetensors";
  const ExperimentConfig config = two_views_config();
  TwoViewsTask task({config, kCpu, registries_});
  EXPECT_TRUE(task.load_weights(weights.string(), WeightsUse::kTraining).empty());
  NamedTensors taken = named_values(*task.stores().front().value);
  std::ranges::sort(taken, {}, &NamedTensors::value_type::first);  // the order in files
  expect_same_bits(taken, end_of("trained").model);
  NamedTensors fewer = read_safetensors(weights).tensors;
  fewer.pop_back();
  write_safetensors(folder_ / "fewer.safetensors", fewer);
  EXPECT_THROW(task.load_weights((folder_ / "fewer.safetensors").string(), WeightsUse::kTraining),
               DataError);
}

// Sweeps compare figures by the schema of a task.
TEST(Tasks, FigureSchemasMatchMeters) {
  const Registries registries = with_two_views();
  for (const TaskEntry& row : registries.tasks) {
    SCOPED_TRACE(row.name());
    ExperimentConfig config = two_views_config();
    config.model.depth = 1;
    config.model.class_token_at = 0;
    config.task = row.name();
    if (row.schema.own_families) config.model = preset_registry().at("dit_tiny").model;
    if (row.name() == "detect") {
      config.model = preset_registry().at("pvt_tiny").model;
      config.model.num_classes = 3;
      config.model.detector.kind = DetectorKind::kRetinaNet;
      config.data.dataset = "synthetic";
      config.data.size = 2;
    }
    const Metrics metrics = row.make({config, kCpu, registries})->meter()->result();
    ASSERT_FALSE(row.schema.figures.empty());
    EXPECT_EQ(row.schema.figures.front().name, metrics.primary);
    EXPECT_EQ(row.schema.figures.front().higher_is_better, metrics.higher_is_better);
    for (const FigureSchema& figure : row.schema.figures) EXPECT_NO_THROW(metrics.at(figure.name));
  }
}

TEST_F(SecondTask, MatchesWithTwoRanks) {
  run("one");
  const NamedTensors one = end_of("one").model;
  for (const char* name : {"two", "again"}) {
    testing::with_ranks(2, [&](Communicator& ranks) { run(name, &ranks); });
  }
  const CheckpointData two = end_of("two"), again = end_of("again");
  expect_same_bits(two.model, again.model);
  expect_same_bits(two.state, again.state);
  // Only rounding differs, over 20 steps of AdamW at a rate of 0.01.
  EXPECT_LT(farthest(one, two.model), 1e-3);
}

}  // namespace
}  // namespace dtn::test
