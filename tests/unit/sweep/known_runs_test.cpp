// Results that a sweep keeps, and runs that sweeps share: when they count as the same run.
#include "apps/sweep/known_runs.h"

#include "apps/sweep/robustness_runs.h"
#include "texts.h"
#include "unit/sweep/sweep_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;
using test::error_of;
using test::expect_contains;

class KnownRuns : public test::SweepFolder {
 protected:
  fs::path kept() const { return folder_ / "kept"; }
  std::string read_kept(const char* file) const { return read(fs::path("kept/ln/seed-0") / file); }

  // Returns the first run of a sweep, finished in `output`.
  SweepRun finished_run(const SweepConfig& sweep, const fs::path& output, double top1) const {
    SweepRun run = plan_runs(sweep, output, {})[0];
    finish(run, {30, top1});
    update_state(run);
    return run;
  }
  static std::string keep_logged(const SweepConfig& sweep, const SweepRun& run,
                                 const fs::path& results) {
    testing::internal::CaptureStderr();
    keep_result(sweep, run, results);
    return testing::internal::GetCapturedStderr();
  }
  static void adopt(const SweepRun& run, const fs::path& results) {
    std::vector<SweepRun> runs = {run};
    adopt_kept_results(runs, results, standard_registries().schemas());
    EXPECT_EQ(runs[0].folder, run.folder) << "the finished run counts";
  }

  // Returns the first run of sweep `b` that equals one of sweep `a`, with these changes.
  std::string shared_with(const std::vector<std::string>& a,
                          const std::vector<std::string>& b) const {
    SharedRuns shared;
    shared.add("a", plan_runs(load("", a), out(), {}));
    return shared.same_as(plan_runs(load("", b), folder_ / "b", {})[0]);
  }
};

TEST_F(KnownRuns, SweepsShareRunsOnTheSameData) {
  EXPECT_EQ(shared_with({}, {}), "a/ln:0");
  EXPECT_EQ(shared_with({"data.root=/data/clothes", "data.workers=1"},
                        {"data.root=/data/clothes", "data.workers=2"}),
            "a/ln:0");
  EXPECT_EQ(shared_with({"data.root=/data/clothes"}, {"data.root=/data/digits"}), "");
}

TEST_F(KnownRuns, SharedRunsNeedTheSameFiles) {
  const SweepConfig sweep = load();
  const auto shared_with_split = [&](auto split, const char* a, const char* b) {
    std::vector<SweepRun> first = plan_runs(sweep, out(), {}), second = first;
    first[0].config.data.*split = a;
    second[0].config.data.*split = b;
    SharedRuns shared;
    shared.add("a", first);
    return shared.same_as(second[0]);
  };
  for (const auto split : {&DataConfig::train, &DataConfig::val, &DataConfig::labels}) {
    EXPECT_EQ(shared_with_split(split, "/data/a/x.tsv", "/data/a/x.tsv"), "a/ln:0");
    EXPECT_EQ(shared_with_split(split, "/data/a/x.tsv", "/data/b/x.tsv"), "");
  }
}

TEST_F(KnownRuns, AdoptsNoRunOnOtherData) {
  SharedRuns shared;
  const SweepConfig clothes = load("", {"data.root=/data/clothes"});
  finished_run(clothes, out(), 60);
  shared.add("a", plan_runs(clothes, out(), {}));
  std::vector<SweepRun> runs = plan_runs(load("", {"data.root=/data/digits"}), folder_ / "b", {});
  shared.adopt(runs);
  EXPECT_EQ(runs[0].state, RunState::kToDo);
  runs = plan_runs(clothes, folder_ / "b", {});
  shared.adopt(runs);
  EXPECT_EQ(runs[0].state, RunState::kFinished);
}

// The data may have moved since the run: see also Sweeps.AdoptsKeptResults.
TEST_F(KnownRuns, FolderContinuesWithMovedData) {
  finished_run(load("", {"data.root=/home/me/images"}), out(), 60);
  const SweepRun moved = plan_runs(load("", {"data.root=/mnt/images"}), out(), {})[0];
  check_config(moved, standard_registries().schemas());
}

TEST_F(KnownRuns, FinishedRunReplacesKeptOneOfOtherFigures) {
  const SweepConfig sweep = load();
  const SweepRun old = finished_run(sweep, folder_ / "old", 60);
  std::ofstream(suite_file(old, "imagenet-r")) << R"({"top1": 20})";
  keep_result(sweep, old, kept());
  write("kept/ln/seed-0/features/knn-last.json", "{}");
  write("kept/ln/seed-0/samples/guidance-1.json", "{}");
  ASSERT_FALSE(read_kept("imagenet-r.json").empty());

  const SweepRun run = finished_run(sweep, out(), 61);
  adopt(run, kept());
  const std::string log = keep_logged(sweep, run, kept());
  expect_contains(log, "ln:0: replacing the kept result in ");
  expect_contains(log, "(top-1 (%) 60.00) by that of the finished run in ");
  expect_contains(log, "(top-1 (%) 61.00)");
  expect_contains(read_kept("metrics.jsonl"), "\"top1\":61");
  expect_contains(read_kept("summary.json"), "\"top1\":61");
  EXPECT_EQ(read_kept("imagenet-r.json"), "") << "it was of the old weights";
  EXPECT_FALSE(fs::exists(kept() / "ln" / "seed-0" / "features"));
  EXPECT_FALSE(fs::exists(kept() / "ln" / "seed-0" / "samples"));
  EXPECT_EQ(keep_logged(sweep, run, kept()), "") << "now they are equal";
}

TEST_F(KnownRuns, EqualResultStays) {
  const SweepConfig sweep = load();
  const SweepRun run = finished_run(sweep, out(), 60);
  keep_result(sweep, run, kept());
  // The same figures, from another machine.
  write("kept/ln/seed-0/summary.json", "{\"top1\":60,\"steps\":10,\"wall_seconds\":7}");
  write("kept/ln/seed-0/imagenet-r.json", R"({"top1": 20})");
  adopt(run, kept());
  EXPECT_EQ(keep_logged(sweep, run, kept()), "");
  expect_contains(read_kept("summary.json"), "\"wall_seconds\":7");
  EXPECT_EQ(read_kept("imagenet-r.json"), R"({"top1": 20})");
}

TEST_F(KnownRuns, KeptResultOfAnotherConfigIsRefused) {
  const SweepConfig sweep = load(), changed = load("", {"optim.lr=0.5"});
  keep_result(sweep, finished_run(sweep, folder_ / "old", 60), kept());
  const SweepRun run = finished_run(changed, out(), 61);
  const std::string folder = (kept() / "ln" / "seed-0").string();
  const std::string message = error_of([&] { adopt(run, kept()); });
  expect_contains(message, "ln:0 was run with another config: optim.lr is 0.5, was ");
  expect_contains(message, "; delete " + folder +
                               " to keep the finished run in its place, or choose another folder "
                               "with --results");
  // The same before the run is finished.
  const SweepRun to_do = plan_runs(changed, folder_ / "absent", {})[0];
  expect_contains(error_of([&] { adopt(to_do, kept()); }),
                  "; delete " + folder +
                      " to run it again, or choose another folder with "
                      "--results");
  expect_contains(read_kept("metrics.jsonl"), "\"top1\":60");
}

}  // namespace
}  // namespace dtn
