#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "dtn/core/parallel.h"
#include "temp_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Contents that differ between any two steps.
CheckpointData example(std::int64_t step, bool with_ema = true, std::int64_t rows = 30) {
  auto filled = [&](double value, DType dtype) {
    return Tensor::full({rows, 100}, dtype, value + static_cast<double>(step));
  };
  CheckpointData data;
  data.model = {{"blocks.0.norm1.weight", filled(1, DType::kFloat32)},
                {"head.bias", filled(2, DType::kBFloat16)}};
  if (with_ema) data.ema = {{"head.bias", filled(3, DType::kFloat32)}};
  data.state = {{"moments.first", filled(4, DType::kFloat32)},
                {"moments.second", filled(5, DType::kFloat64)},
                {"counts", filled(6, DType::kInt64)}};
  data.state_metadata = {{"epoch", "3"}, {"position", std::to_string(step % 7)}, {"seed", "0"}};
  data.config_yaml = "name: x\nmodel: {preset: vit_t}\n";
  data.step = step;
  return data;
}

void expect_same(const NamedTensors& a, NamedTensors b) {
  std::sort(b.begin(), b.end(), [](auto& x, auto& y) { return x.first < y.first; });
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    const Tensor &x = a[i].second, &y = b[i].second;
    ASSERT_TRUE(x.dtype() == y.dtype() && x.shape() == y.shape()) << a[i].first;
    EXPECT_EQ(std::memcmp(x.raw(), y.raw(), x.nbytes()), 0) << a[i].first;
  }
}

void expect_same(const CheckpointData& a, const CheckpointData& b) {
  expect_same(a.model, b.model);
  expect_same(a.ema, b.ema);
  expect_same(a.state, b.state);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.config_yaml, b.config_yaml);
  for (const auto& [key, value] : b.state_metadata) EXPECT_EQ(a.state_metadata.at(key), value);
}

class Checkpoints : public ::testing::Test {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> result;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints")) {
      result.insert(entry.path().filename());
    }
    return result;
  }
  fs::path link(const char* name) const { return run_ / "checkpoints" / name; }
  // Flips one bit in the middle of a file.
  void damage(std::int64_t step, const char* file) const {
    fs::path path = checkpoint_path(run_, step) / file;
    std::string text = read_text(path);
    text[text.size() / 2] ^= 1;
    write_text(path, text);
  }

  const test::TempFolder temporary_;
  const fs::path run_ = temporary_.path();
};

TEST_F(Checkpoints, RoundTrip) {
  for (bool with_ema : {true, false}) {
    CheckpointData data = example(12, with_ema);
    save_checkpoint(run_, data, 3);
    fs::path folder = run_ / "checkpoints" / "step-00000012";
    EXPECT_EQ(fs::exists(folder / "ema.safetensors"), with_ema);
    expect_same(load_checkpoint(folder), data);
    expect_same(load_checkpoint(link("last")), data);
    EXPECT_EQ(fs::read_symlink(link("last")), "step-00000012");
    EXPECT_EQ(find_resumable(run_), folder);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"last", "step-00000012"}));
}

TEST_F(Checkpoints, FilesHoldConfigAndFormatButNoMachineState) {
  save_checkpoint(run_, example(5), 1);
  for (const char* name : {"model.safetensors", "ema.safetensors"}) {
    StringMap metadata = read_safetensors(link("last") / name).metadata;
    EXPECT_EQ(metadata, (StringMap{{"config", example(5).config_yaml},
                                   {"format", "dtn-checkpoint-1"},
                                   {"step", "5"}}));
  }
  StringMap state = read_safetensors(link("last") / "state.safetensors").metadata;
  EXPECT_EQ(state.at("config"), example(5).config_yaml);
  EXPECT_EQ(state.at("position"), "5");

  // The same data gives the same bytes in another folder, with another number of threads.
  std::string model = read_text(link("last") / "model.safetensors");
  int threads = max_threads();
  set_num_threads(1);
  save_checkpoint(run_ / "elsewhere", example(5), 1);
  set_num_threads(threads);
  EXPECT_EQ(model, read_text(run_ / "elsewhere" / "checkpoints" / "last" / "model.safetensors"));
}

TEST_F(Checkpoints, PrunesAllButNewestLastAndBest) {
  for (std::int64_t step : {10, 20, 30, 40, 50}) {
    save_checkpoint(run_, example(step), 2);
    if (step == 20) mark_best(run_, 20);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"best", "last", "step-00000020", "step-00000040",
                                            "step-00000050"}));
  EXPECT_EQ(fs::read_symlink(link("best")), "step-00000020");
  expect_same(load_checkpoint(link("best")), example(20));
  save_checkpoint(run_, example(60), 1, 40);
  mark_best(run_, 40);
  save_checkpoint(run_, example(70), 1);
  EXPECT_EQ(names(), (std::set<std::string>{"best", "last", "step-00000040", "step-00000070"}));
  EXPECT_THROW(mark_best(run_, 60), Error);
  EXPECT_EQ(fs::read_symlink(link("best")), "step-00000040");
}

TEST_F(Checkpoints, KeepsPermanentSteps) {
  const auto save = [&](const PermanentSteps& permanent) {
    for (std::int64_t step : {0, 10, 20, 30, 40, 50}) {
      save_checkpoint(run_, example(step), 1, std::nullopt, permanent);
    }
  };
  save({.every = 20});
  EXPECT_EQ(names(),
            (std::set<std::string>{"last", "step-00000020", "step-00000040", "step-00000050"}));
  confirm_checkpoint(run_, 50, 1, std::nullopt, {.every = 40});
  EXPECT_EQ(names(),
            (std::set<std::string>{"confirmed", "last", "step-00000040", "step-00000050"}));
  fs::remove_all(run_);
  save({.first = true, .every = 30});
  EXPECT_EQ(names(),
            (std::set<std::string>{"last", "step-00000000", "step-00000030", "step-00000050"}));
}

TEST_F(Checkpoints, MarksNewBestBeforePruningOldBest) {
  for (std::int64_t step : {10, 20, 30}) save_checkpoint(run_, example(step), 1, 10);
  EXPECT_EQ(fs::read_symlink(link("best")), "step-00000010");
  save_checkpoint(run_, example(40), 1, 40);
  EXPECT_EQ(fs::read_symlink(link("best")), "step-00000040");
  EXPECT_EQ(names(), (std::set<std::string>{"best", "last", "step-00000040"}));
}

TEST_F(Checkpoints, RewoundRunContinuesFromItsOwnSteps) {
  for (std::int64_t step : {10, 20, 30}) save_checkpoint(run_, example(step), 5);
  save_checkpoint(run_, example(15), 5);  // resumed from 10 deliberately
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 15));
  CheckpointData again = example(20);
  again.state_metadata["seed"] = "1";
  save_checkpoint(run_, again, 1);
  EXPECT_EQ(load_checkpoint(link("last")).state_metadata.at("seed"), "1");
  EXPECT_EQ(names(), (std::set<std::string>{"last", "step-00000020", "step-00000030"}));
}

TEST_F(Checkpoints, RewoundRunHasItsOwnBest) {
  for (std::int64_t step : {10, 20, 30}) save_checkpoint(run_, example(step), 5, step);
  EXPECT_TRUE(continue_best(run_, checkpoint_path(run_, 20), 10));
  EXPECT_EQ(fs::read_symlink(link("best")), "step-00000010");
  EXPECT_FALSE(continue_best(run_, checkpoint_path(run_, 20), 5)) << "step 5 was deleted";
  EXPECT_FALSE(fs::is_symlink(link("best")));
  mark_best(run_, 30);
  EXPECT_FALSE(continue_best(run_, checkpoint_path(run_, 20), std::nullopt));
  EXPECT_FALSE(fs::is_symlink(link("best"))) << "step 30 belongs to the other run";
}

TEST_F(Checkpoints, RunInAnotherFolderTakesTheBestAlong) {
  for (std::int64_t step : {10, 20, 30}) save_checkpoint(run_, example(step), 5, 10);
  const fs::path other = run_ / "other";
  for (int times = 0; times < 2; ++times) {
    EXPECT_TRUE(continue_best(other, link("last"), 10));
    EXPECT_EQ(fs::read_symlink(other / "checkpoints" / "best"), "step-00000010");
    EXPECT_EQ(load_checkpoint(other / "checkpoints" / "best").step, 10);
  }
  EXPECT_FALSE(fs::exists(checkpoint_path(other, 30)));
}

TEST_F(Checkpoints, SupportsStepsBeyondEightDigits) {
  for (std::int64_t step : {99'999'999, 100'000'000}) save_checkpoint(run_, example(step), 2);
  fs::remove(link("last"));
  EXPECT_EQ(find_resumable(run_)->filename(), "step-100000000");
}

TEST_F(Checkpoints, FindsNothingToResumeInInvalidFolders) {
  EXPECT_EQ(find_resumable(run_ / "absent"), std::nullopt);
  EXPECT_EQ(find_resumable(run_), std::nullopt);
  fs::create_directories(run_ / "checkpoints" / "step-00000001.tmp-1-2");
  fs::create_directories(run_ / "checkpoints" / "step-1");  // not a valid name
  write_text(run_ / "checkpoints" / "step-00000002", "a file");
  EXPECT_EQ(find_resumable(run_), std::nullopt);
  EXPECT_EQ(names(), (std::set<std::string>{"step-1", "step-00000002"}));
}

TEST_F(Checkpoints, SkipsDamagedCheckpointsButKeepsThem) {
  for (std::int64_t step : {1, 2, 3, 4}) save_checkpoint(run_, example(step), 9);
  damage(4, "state.safetensors");
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 3));
  fs::remove(checkpoint_path(run_, 3) / "ema.safetensors");
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 2));
  damage(2, "model.safetensors");
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 1));
  fs::remove(checkpoint_path(run_, 1) / "state.safetensors");
  EXPECT_THROW(find_resumable(run_), DataError);
  // Saving the damaged step again repairs it.
  save_checkpoint(run_, example(2), 9);
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 2));
}

TEST_F(Checkpoints, RejectsMixedFoldersAndForeignFiles) {
  save_checkpoint(run_, example(1), 9);
  save_checkpoint(run_, example(2), 9);
  fs::copy_file(checkpoint_path(run_, 1) / "model.safetensors",
                checkpoint_path(run_, 2) / "model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THROW(load_checkpoint(checkpoint_path(run_, 2)), DataError);
  write_safetensors(checkpoint_path(run_, 1) / "state.safetensors", {}, {{"format", "pt"}});
  EXPECT_THROW(load_checkpoint(checkpoint_path(run_, 1)), DataError);
  EXPECT_THROW(load_checkpoint(run_ / "absent"), DataError);
}

TEST_F(Checkpoints, DetectsThousandBitFlips) {
  save_checkpoint(run_, example(8), 1);
  fs::path folder = checkpoint_path(run_, 8);
  const char* files[] = {"model.safetensors", "ema.safetensors", "state.safetensors"};
  std::mt19937_64 random(20220131);
  for (int i = 0; i < 1000; ++i) {
    fs::path path = folder / files[i % 3];
    std::string good = read_text(path);
    std::string bad = good;
    // Every second flip hits the header, which is a small part of the file.
    std::size_t range = i % 2 ? std::min<std::size_t>(bad.size(), 1024) : bad.size();
    std::size_t at = random() % range;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    write_text(path, bad);
    try {
      load_checkpoint(folder);
      ADD_FAILURE() << "flip at byte " << at << " of " << path << " went unnoticed";
    } catch (const DataError& e) {
      EXPECT_NE(std::string(e.what()).find(".safetensors"), std::string::npos) << e.what();
    }
    write_text(path, good);
  }
  expect_same(load_checkpoint(folder), example(8));
}

TEST_F(Checkpoints, DetectsTruncationAtEveryPage) {
  save_checkpoint(run_, example(8), 1);
  fs::path folder = checkpoint_path(run_, 8);
  int cuts = 0;
  for (const char* name : {"model.safetensors", "ema.safetensors", "state.safetensors"}) {
    std::string good = read_text(folder / name);
    for (std::size_t size = 0; size < good.size(); size += 4096, ++cuts) {
      write_text(folder / name, good.substr(0, size));
      EXPECT_THROW(load_checkpoint(folder), DataError) << name << " cut to " << size;
    }
    write_text(folder / name, good);
  }
  EXPECT_GT(cuts, 20);
}

TEST_F(Checkpoints, FullDiskKeepsEarlierCheckpoints) {
  save_checkpoint(run_, example(1), 1);
  mark_best(run_, 1);
  auto before = names();
  auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  // First the earlier files fit and the last does not; then no file fits.
  for (rlim_t bytes : {rlim_t{40'000}, rlim_t{100}}) {
    rlimit limit{bytes, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string message;
    try {
      save_checkpoint(run_, example(2), 1);
    } catch (const Error& e) {
      message = e.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_NE(message.find("step-00000002"), std::string::npos) << message;
    EXPECT_NE(message.find(std::strerror(EFBIG)), std::string::npos) << message;
    EXPECT_EQ(names(), before);
    EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 1));
  }
  std::signal(SIGXFSZ, old_handler);
  save_checkpoint(run_, example(2), 1);
  EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 2));
}

TEST_F(Checkpoints, KeepsConfirmedCheckpoint) {
  save_checkpoint(run_, example(10), 1);
  EXPECT_FALSE(names().contains("confirmed"));
  confirm_checkpoint(run_, 10, 1);
  for (std::int64_t step : {20, 30}) save_checkpoint(run_, example(step), 1);
  EXPECT_EQ(names(),
            (std::set<std::string>{"confirmed", "last", "step-00000010", "step-00000030"}));
  confirm_checkpoint(run_, 30, 1);
  EXPECT_EQ(names(), (std::set<std::string>{"confirmed", "last", "step-00000030"}));
  confirm_checkpoint(run_, 20, 1);  // no longer exists
  EXPECT_EQ(fs::read_symlink(link("confirmed")), "step-00000030");
  CheckpointData evaluated = example(40);
  evaluated.state_metadata[kConfirmedKey] = "1";
  save_checkpoint(run_, evaluated, 1);
  EXPECT_EQ(fs::read_symlink(link("confirmed")), "step-00000040");
  // The checkpoint itself stores the confirmation, so the link can be dropped at the end of a run.
  drop_confirmed_link(run_);
  EXPECT_EQ(names(), (std::set<std::string>{"last", "step-00000040"}));
  const Retreat retreat = retreat_to_confirmed(run_, 40);
  EXPECT_EQ(retreat.confirmed, checkpoint_path(run_, 40));
  EXPECT_EQ(retreat.set_aside, std::nullopt);
  save_checkpoint(run_, example(50), 1);
  confirm_checkpoint(run_, 50, 1);
  drop_confirmed_link(run_);
  EXPECT_TRUE(names().contains("confirmed")) << "nothing else says so";
}

TEST_F(Checkpoints, RetreatKeepsDivergedCheckpoint) {
  EXPECT_EQ(retreat_to_confirmed(run_, std::nullopt).confirmed, std::nullopt);
  save_checkpoint(run_, example(10), 9, 10);
  confirm_checkpoint(run_, 10, 9, 10);
  for (std::int64_t step : {20, 30, 30}) {
    save_checkpoint(run_, example(step), 9, step);
    const Retreat retreat = retreat_to_confirmed(run_, step);
    const std::string aside = cat("diverged-step-000000", step);
    EXPECT_EQ(retreat.confirmed, checkpoint_path(run_, 10));
    EXPECT_EQ(retreat.set_aside, run_ / "checkpoints" / aside);
    EXPECT_EQ(names(), (std::set<std::string>{"confirmed", "last", "step-00000010", aside}));
    EXPECT_EQ(fs::read_symlink(link("last")), "step-00000010");
    expect_same(load_checkpoint(*retreat.set_aside), example(step));
    EXPECT_EQ(find_resumable(run_), checkpoint_path(run_, 10));
  }
  // A link without its checkpoint does not count.
  save_checkpoint(run_, example(40), 9);
  fs::remove_all(checkpoint_path(run_, 10));
  EXPECT_EQ(retreat_to_confirmed(run_, 40).confirmed, std::nullopt);
  EXPECT_EQ(names(), (std::set<std::string>{"confirmed", "diverged-step-00000040"}));
  EXPECT_EQ(find_resumable(run_), std::nullopt);
}

// Reports through the pipe that it runs. Then it saves the steps after `step` forever, and reports
// each step once it is saved.
[[noreturn]] void save_forever(const fs::path& run, std::int64_t step, int report) {
  set_num_threads(1);  // fork does not copy the parent's threads
  try {
    while (::write(report, &step, sizeof step) == sizeof step) {
      ++step;
      save_checkpoint(run, example(step, true, 150), 2);
      if (step % 3 == 0) mark_best(run, step);
    }
    ::_exit(2);
  } catch (const std::exception&) {
    ::_exit(1);
  }
}

TEST_F(Checkpoints, KillDuringSaveLosesNothing) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  for (std::int64_t step : {1, 2, 3, 4}) {
    save_checkpoint(run_ / "timing", example(step, true, 150), 2);
  }
  auto save_time = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin) / 4;

  std::mt19937_64 random(9);
  std::int64_t reached = 0;
  int with_leftovers = 0;
  // A machine slowed down by other work gets more rounds.
  const auto proved = [&] { return reached > 20 && with_leftovers > 5; };
  for (int round = 0; round < 50 || (!proved() && round < 1000); ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_forever(run_, reached, ends[1]);
    ::close(ends[1]);
    std::int64_t reported = -1;
    ASSERT_EQ(::read(ends[0], &reported, sizeof reported), ssize_t{sizeof reported});
    // At any time during about the first three saves, on fast and slow machines.
    std::this_thread::sleep_for(save_time * (random() % 3000) / 1000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed with " << WEXITSTATUS(status);
    while (::read(ends[0], &reported, sizeof reported) == sizeof reported) {
    }
    ::close(ends[0]);

    if (fs::exists(run_ / "checkpoints")) {
      for (const std::string& name : names()) {
        bool leftover = name.find(".t") != std::string::npos;
        with_leftovers += leftover;
        // A valid name never holds an incomplete checkpoint.
        if (!leftover) {
          EXPECT_NO_THROW(load_checkpoint(link(name.c_str())));
        }
      }
    }
    auto found = find_resumable(run_);
    if (!found) {
      ASSERT_EQ(reported, 0);
      continue;
    }
    CheckpointData data = load_checkpoint(*found);
    ASSERT_GE(data.step, reported);
    expect_same(data, example(data.step, true, 150));
    for (const std::string& name : names()) EXPECT_EQ(name.find(".t"), std::string::npos) << name;
    reached = data.step;
  }
  EXPECT_GT(reached, 20);
  EXPECT_GT(with_leftovers, 5) << "the kills hit no save: the test tests nothing";
}

}  // namespace
}  // namespace dtn
