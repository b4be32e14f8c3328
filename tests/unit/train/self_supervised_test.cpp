// DINO and supervised contrastive learning through the whole trainer: micro-batches, ranks, threads
// and resumed runs give what one process gives for the whole batch.
#include <atomic>

#include "dtn/core/parallel.h"
#include "self_supervised_runs.h"
#include "thread_ranks.h"

namespace dtn::test {
namespace {

const std::vector<std::pair<std::string, std::string>> kRuns{
    {"dino_frozen", "dino"}, {"dino_late_token", "dino"}, {"supcon", "supcon"}};

ExperimentConfig config_of(const std::pair<std::string, std::string>& run,
                           const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = overrides;
  all.push_back("model.drop_path=0.3");  // its random numbers must not depend on the split
  return golden_config(run.first, run.second, all);
}

// SGD shows the size of gradients, which AdamW would hide.
std::vector<std::string> with_sgd(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"optim.name=sgd", "optim.momentum=0.9", "optim.lr=0.05"});
  return more;
}

void expect_close(const NamedTensors& a, const NamedTensors& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_LT(relative_distance(doubles(a[i].second), doubles(b[i].second)), tolerance)
        << a[i].first;
  }
}

void expect_same_bits(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(same_bits(a[i].second, b[i].second)) << a[i].first;
  }
}

void expect_equal_ends(const FinishedRun& a, const FinishedRun& b, double tolerance) {
  expect_close(a.end.model, b.end.model, tolerance);
  expect_close(a.end.ema, b.end.ema, tolerance);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  EXPECT_LT(relative_distance(a.logged("loss"), b.logged("loss")), tolerance);
}

TEST(SelfSupervised, MicroBatchesChangeNothing) {
  for (const auto& run : kRuns) {
    SCOPED_TRACE(run.first);
    const FinishedRun whole = run_of(config_of(run, with_sgd()));
    for (const char* size : {"2", "1"}) {
      const FinishedRun split = run_of(config_of(run, with_sgd({cat("train.micro_batch=", size)})));
      expect_equal_ends(split, whole, 2e-5);
    }
  }
}

TEST(SelfSupervised, RanksChangeNothing) {
  for (const auto& run : kRuns) {
    SCOPED_TRACE(run.first);
    const auto compare = [&](int count, const std::string& batch, const std::string& micro_batch) {
      const std::vector<std::string> whole_batch = with_sgd({"train.batch_size=" + batch});
      const FinishedRun whole = run_of(config_of(run, whole_batch));
      FinishedRun shared;
      testing::with_ranks(count, [&](Communicator& ranks) {
        std::vector<std::string> overrides = whole_batch;
        overrides.push_back("train.micro_batch=" + micro_batch);
        const FinishedRun own = run_of(config_of(run, overrides), &ranks);
        if (ranks.is_root()) shared = own;
      });
      expect_equal_ends(shared, whole, 2e-5);
    };
    compare(2, "4", "4");
    compare(2, "4", "1");
    compare(4, "8", "8");
  }
}

TEST(SelfSupervised, OnlyTheStudentOfDinoDropsPaths) {
  const auto first_step = [](const char* drop_path) {
    return run_of(golden_config(
        "dino_frozen", "dino",
        {"schedule.epochs=null", "schedule.steps=1", cat("model.drop_path=", drop_path)}));
  };
  const FinishedRun all = first_step("0"), dropping = first_step("0.9");
  EXPECT_NE(all.logged("loss"), dropping.logged("loss"));
  for (const char* of_teacher : {"teacher_entropy", "center_norm"}) {
    EXPECT_EQ(all.logged(of_teacher), dropping.logged(of_teacher)) << of_teacher;
  }
}

TEST(SelfSupervised, ThreadsAndWorkersChangeNoBit) {
  for (const auto& run : kRuns) {
    SCOPED_TRACE(run.first);
    const FinishedRun one = run_of(config_of(run));
    const int before = max_threads();
    set_num_threads(3);
    const FinishedRun three = run_of(config_of(run, {"data.workers=3"}));
    set_num_threads(before);
    expect_same_bits(three.end.model, one.end.model);
    expect_same_bits(three.end.ema, one.end.ema);
    expect_same_bits(three.end.state, one.end.state);
  }
}

TEST(SelfSupervised, ResumesBitForBit) {
  for (const auto& run : kRuns) {
    SCOPED_TRACE(run.first);
    const ExperimentConfig config = config_of(run, {"train.checkpoint_every=1", "train.keep=20"});
    const TempFolder folder;
    TrainerOptions options;
    options.output = folder.path() / "run";
    ASSERT_EQ(train(config, options), RunStatus::kFinished);
    const CheckpointData whole = load_checkpoint(options.output / "checkpoints" / "last");
    options.resume_from = checkpoint_path(options.output, 2);  // the last layer is still frozen
    options.output = folder.path() / "resumed";
    ASSERT_EQ(train(config, options), RunStatus::kFinished);
    const CheckpointData resumed = load_checkpoint(options.output / "checkpoints" / "last");
    expect_same_bits(resumed.model, whole.model);
    expect_same_bits(resumed.ema, whole.ema);
    expect_same_bits(resumed.state, whole.state);
    EXPECT_EQ(resumed.state_metadata, whole.state_metadata);
  }
}

TEST(SelfSupervised, FileHoldsStudentTeacherAndCenter) {
  const FinishedRun run = run_of(config_of(kRuns[0], {"schedule.epochs=1"}));
  const auto names = [](const NamedTensors& tensors) {
    std::vector<std::string> all;
    for (const auto& [name, tensor] : tensors) all.push_back(name);
    return all;
  };
  EXPECT_EQ(names(run.end.model), names(run.end.ema));
  for (const auto& name : names(run.end.model)) {
    EXPECT_TRUE(name.starts_with("backbone.") || name.starts_with("head.")) << name;
  }
  EXPECT_EQ(named(run.end.state, "dino.center").shape(), (Shape{1, 32}));
  // The last layer was frozen in this epoch: no update, no decay, no moments.
  const TensorFile start = read_safetensors(golden_file("dino_frozen_init.safetensors"));
  const char* last = "head.last_layer.weight_v";
  EXPECT_TRUE(same_bits(named(run.end.model, last), named(start.tensors, last)));
  for (const auto& [name, tensor] : run.end.state) {
    if (name.find("last_layer") == std::string::npos) continue;
    for (double value : doubles(tensor)) ASSERT_EQ(value, 0) << name;
  }
}

TEST(SelfSupervised, ContrastNeedsEqualShares) {
  const ExperimentConfig config = golden_config("supcon", "supcon", {"train.batch_size=6"});
  std::atomic<int> refused = 0;
  testing::with_ranks(2, [&](Communicator& ranks) {
    try {
      run_of(config, &ranks);
    } catch (const ConfigError& e) {
      refused += std::string(e.what()).find("equal shares") != std::string::npos;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(SelfSupervised, ResumesItsTaskOnly) {
  const TempFolder folder;
  TrainerOptions options;
  options.output = folder.path() / "supcon";
  ASSERT_EQ(train(golden_config("supcon", "supcon"), options), RunStatus::kFinished);
  options.resume_from = checkpoint_path(options.output, 4);
  options.output = folder.path() / "dino";
  try {
    train(golden_config("dino_late_token", "dino"), options);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("is of the task supcon"), std::string::npos) << e.what();
  }
}

TEST(SelfSupervised, RatesMayFallFromLayerToLayer) {
  const FinishedRun run =
      run_of(golden_config("dino_frozen", "dino", {"optim.layer_decay=0.5", "schedule.epochs=1"}));
  EXPECT_EQ(run.steps.size(), 3u);
}

TEST(SelfSupervised, RefusesWhatCannotWork) {
  const auto fails_with = [](const std::vector<std::string>& overrides, const std::string& text) {
    try {
      run_of(golden_config("dino_frozen", "dino", overrides));
      ADD_FAILURE() << "no error for " << overrides.front();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  fails_with({"dino.local_size=10"}, "dino.local_size");
  fails_with({"dino.out_dim=1"}, "dino.out_dim");
  fails_with({"train.ema=0.9"}, "dino.teacher_momentum");
  fails_with({"dino.local_crops=2"}, "local");
  fails_with({"dino.local_scale=[0.5, 0.2]"}, "dino.local_scale");
}

}  // namespace
}  // namespace dtn::test
