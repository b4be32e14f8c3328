// Pictures that a task draws during a run, through the whole trainer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "core/format.h"
#include "dtn/io/safetensors.h"
#include "temp_folder.h"
#include "tensors.h"
#include "thread_ranks.h"
#include "train/checkpoint.h"
#include "train/record/step_pictures.h"
#include "train/trainer.h"
#include "two_views_config.h"

namespace dtn::test {
namespace {

namespace fs = std::filesystem;

// Failures that the next pictures show.
struct Faults {
  bool throws = false, stops = false;
  int drawn = 0;
};

constexpr const char* kDrawn = "head.weight";

// Draws the first bits of a weight.
class DrawingTask : public TwoViewsTask {
 public:
  DrawingTask(const TaskSetup& setup, Faults* faults) : TwoViewsTask(setup), faults_(faults) {}
  std::optional<Period> picture_period() const override { return Period{4, false}; }
  Image picture(DType compute) override {
    EXPECT_EQ(compute, DType::kFloat32);
    ++faults_->drawn;
    if (faults_->throws) throw Error("no ink");
    Image image;
    if (faults_->stops) return image;
    image.reshape(8, 4, 1);
    ParameterStore& store = *stores().front().value;
    for (const Parameter& p : store.parameters()) {
      if (p.name != kDrawn) continue;
      std::memcpy(image.pixels.data(), ParameterStore::view(store.values(), p).raw(), 32);
    }
    return image;
  }

 private:
  Faults* faults_;
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Pictures : public ::testing::Test {
 protected:
  Pictures() {
    registries_.tasks.add({{"drawing", "a task that draws", {{"score", "score", false}}},
                           [this](const TaskSetup& setup) {
                             return std::make_unique<DrawingTask>(setup, &faults_);
                           }});
  }
  RunStatus run(const std::string& name, std::int64_t steps = 10, std::optional<double> ema = 0.9,
                Communicator* ranks = nullptr) const {
    ExperimentConfig c = two_views_config();
    c.task = "drawing";
    c.schedule.name = "constant";  // the rate does not depend on the length of the run
    c.schedule.steps = steps;
    c.train.ema = ema;
    c.train.checkpoint_every = {2, false};
    TrainerOptions options;
    options.output = folder_.path() / name;
    options.ranks = ranks;
    options.registries = &registries_;
    if (!ranks || ranks->is_root()) options.resume_from = resolve_resume("auto", options.output);
    return train(c, options);
  }
  // The pictures of a run, by step.
  std::map<std::int64_t, std::string> pictures(const std::string& name) const {
    std::map<std::int64_t, std::string> all;
    for (const auto& [step, file] : step_pictures(folder_.path() / name)) {
      all[step] = bytes_of(file);
    }
    return all;
  }
  // The same bits in a file of the last checkpoint.
  std::vector<std::uint8_t> saved_bits(const std::string& name, const char* file) const {
    const fs::path path = folder_.path() / name / "checkpoints" / "last" / file;
    const TensorFile weights = read_safetensors(path);
    const auto drawn =
        std::ranges::find(weights.tensors, kDrawn, [](const auto& t) { return t.first; });
    const auto* from = static_cast<const std::uint8_t*>(drawn->second.raw());
    return {from, from + 32};
  }
  std::vector<std::uint8_t> pixels_of(const std::string& name, std::int64_t step) const {
    const std::string png = bytes_of(step_picture_path(folder_.path() / name, step));
    return decode_image(std::as_bytes(std::span(png)), "picture", {}, ColorMode::kAsStored).pixels;
  }
  std::string log_of(const std::string& name) const {
    return bytes_of(folder_.path() / name / "train.log");
  }

  TempFolder folder_;
  mutable Faults faults_;
  Registries registries_ = with_two_views();
};

std::vector<std::int64_t> steps_of(const std::map<std::int64_t, std::string>& pictures) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, png] : pictures) steps.push_back(step);
  return steps;
}

TEST_F(Pictures, ShowTheAverageOrTheWeights) {
  run("average");
  EXPECT_EQ(steps_of(pictures("average")), (std::vector<std::int64_t>{4, 8, 10}));
  EXPECT_EQ(pixels_of("average", 10), saved_bits("average", "ema.safetensors"));
  EXPECT_NE(pixels_of("average", 10), saved_bits("average", "model.safetensors"));
  run("weights", 10, std::nullopt);
  EXPECT_EQ(pixels_of("weights", 10), saved_bits("weights", "model.safetensors"));
  const fs::path board = folder_.path() / "average" / "tensorboard";
  std::string events;
  for (const auto& file : fs::directory_iterator(board)) events += bytes_of(file.path());
  EXPECT_NE(events.find("generated"), std::string::npos);
  EXPECT_NE(events.find(pictures("average").at(8)), std::string::npos);
}

TEST_F(Pictures, DoNotChangeTheTraining) {
  run("drawn");
  const CheckpointData drawn = load_checkpoint(folder_.path() / "drawn" / "checkpoints" / "last");
  faults_.stops = true;
  run("undrawn");
  const CheckpointData other = load_checkpoint(folder_.path() / "undrawn" / "checkpoints" / "last");
  ASSERT_EQ(drawn.model.size(), other.model.size());
  for (std::size_t i = 0; i < drawn.model.size(); ++i) {
    EXPECT_TRUE(same_bits(drawn.model[i].second, other.model[i].second));
  }
  EXPECT_TRUE(pictures("undrawn").empty());
}

// The run goes on as if a signal had stopped it within a picture, and later pictures were lost.
TEST_F(Pictures, AreTheSameAfterAResume) {
  run("whole", 12);
  run("resumed", 8);
  const fs::path of_resumed = folder_.path() / "resumed";
  fs::remove(step_picture_path(of_resumed, 8));
  std::ofstream(step_picture_path(of_resumed, 99)) << "of a run that was abandoned";
  std::ofstream(of_resumed / "samples" / "mine.png") << "not ours";
  run("resumed", 12);
  EXPECT_EQ(steps_of(pictures("resumed")), (std::vector<std::int64_t>{4, 8, 12}));
  EXPECT_EQ(pictures("resumed"), pictures("whole"));
  EXPECT_TRUE(fs::exists(of_resumed / "samples" / "mine.png"));
}

TEST_F(Pictures, OfAFinishedRunAreNotDrawnAgain) {
  run("finished", 8);
  fs::remove(step_picture_path(folder_.path() / "finished", 8));
  const int before = faults_.drawn;
  run("finished", 8);
  EXPECT_EQ(faults_.drawn, before);
}

TEST_F(Pictures, ThatFailDoNotStopTheRun) {
  faults_.throws = true;
  EXPECT_EQ(run("failing"), RunStatus::kFinished);
  const std::string log = log_of("failing");
  const std::string warning = "cannot draw a picture: no ink";
  ASSERT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning, log.find(warning) + 1), std::string::npos) << "it warns once";
  EXPECT_EQ(faults_.drawn, 3);
}

}  // namespace
}  // namespace dtn::test
