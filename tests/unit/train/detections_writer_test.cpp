#include "train/record/detections_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "dtn/core/check.h"
#include "io/file.h"
#include "tasks/detect_examples/detections_file.h"
#include "temp_folder.h"
#include "texts.h"
#include "train/trainer.h"
#include "two_views_config.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Images of width x height pixels whose values are their index; the last bytes of a row of the
// field are unused.
class PlainImages final : public SampleSource {
 public:
  PlainImages(std::int64_t width, std::int64_t height) : width_(width), height_(height) {}

  std::int64_t size() const override { return 200; }
  const std::string& description() const override { return description_; }
  std::string sample_name(std::int64_t index) const override { return cat("/data/val/", index); }
  std::vector<std::string> class_names() const override { return {"disc"}; }
  std::vector<FieldSpec> host_fields() const override {
    return {{"pixels", Shape{width_ * height_ * 3 + 7}, DType::kUInt8},
            {"size", Shape{2}, DType::kInt64}};
  }
  void make(std::int64_t index, const SampleKey&, FieldRow& row, Workspace&) const override {
    std::ranges::fill(row.at<std::uint8_t>("pixels"), static_cast<std::uint8_t>(index));
    row.at<std::int64_t>("size")[0] = height_;
    row.at<std::int64_t>("size")[1] = width_;
    ++made_;
  }
  int made() const { return made_; }

 private:
  std::int64_t width_, height_;
  std::string description_ = "plain images";
  mutable int made_ = 0;
};

// Samples without pixels.
class PlainNumbers final : public SampleSource {
 public:
  std::int64_t size() const override { return 1; }
  const std::string& description() const override { return description_; }
  std::vector<FieldSpec> host_fields() const override {
    return {{"number", Shape{1}, DType::kInt64}};
  }
  void make(std::int64_t, const SampleKey&, FieldRow& row, Workspace&) const override {
    row.at<std::int64_t>("number")[0] = 1;
  }

 private:
  std::string description_ = "numbers";
};

DetectionExamples examples() {
  DetectionExamples out;
  for (const std::int64_t index : {3, 150}) {
    out.images.push_back({.index = index, .width = 640, .height = 480});
    for (const double score : {0.9, 0.3, 0.29, std::nan("")}) {
      out.images.back().detections.push_back({.box = {1, 2, 30, 40}, .score = score});
    }
  }
  out.curves.push_back({.name = "bbox", .ap = 0.5});
  return out;
}

TEST(DetectionsWriter, WritesFileAndPictures) {
  const test::TempFolder folder;
  const PlainImages source(60, 40);
  write_detections(folder.path(), 700, examples(), source);
  const DetectionsFile file = read_detections(folder.read(kDetectionsFile), "file");
  EXPECT_EQ(file.step, 700);
  EXPECT_EQ(file.classes, std::vector<std::string>{"disc"});
  EXPECT_EQ(file.curves, examples().curves);
  ASSERT_EQ(file.images.size(), 2U);
  EXPECT_EQ(file.images[1].name, "150");
  EXPECT_EQ(file.images[1].image.index, 150);
  EXPECT_EQ(file.images[1].image.detections.size(), 2U) << "scores of at least 0.3";
  const fs::path path = folder.path() / kDetectionsFolder / file.images[1].picture;
  const Image picture = decode_image(read_file(path.string()), path.string());
  EXPECT_EQ(std::pair(picture.width, picture.height), std::pair(60, 40));
  EXPECT_TRUE(std::ranges::all_of(picture.pixels, [](int value) { return value == 150; }));
}

TEST(DetectionsWriter, KeepsPicturesOfEarlierEvaluations) {
  const test::TempFolder folder;
  const PlainImages source(60, 40);
  write_detections(folder.path(), 700, examples(), source);
  EXPECT_EQ(source.made(), 2);
  write_detections(folder.path(), 800, examples(), source);
  EXPECT_EQ(source.made(), 2);
  EXPECT_EQ(read_detections(folder.read(kDetectionsFile), "file").step, 800);
}

TEST(DetectionsWriter, ReducesLargeImages) {
  const Image wide = example_picture(PlainImages(1066, 800), 9);
  EXPECT_EQ(std::pair(wide.width, wide.height), std::pair(512, 384));
  EXPECT_TRUE(std::ranges::all_of(wide.pixels, [](int value) { return value == 9; }));
  const Image strip = example_picture(PlainImages(2, 5000), 9);
  EXPECT_EQ(std::pair(strip.width, strip.height), std::pair(1, 512));
  const Image small = example_picture(PlainImages(512, 3), 9);
  EXPECT_EQ(std::pair(small.width, small.height), std::pair(512, 3));
}

TEST(DetectionsWriter, NeedsPixels) {
  test::expect_error<Error>([] { example_picture(PlainNumbers(), 0); }, {"have no pictures"});
}

// A task whose evaluations have known figures: those of the weights and of their average in turn.
class TaskOfFigures final : public test::TwoViewsTask {
 public:
  using TwoViewsTask::TwoViewsTask;

  std::unique_ptr<Meter> meter() const override {
    constexpr std::array<double, 8> kFigures = {0.3, 0.1, 0.6, 0.2, 0.5, 0.4, 0.4, 0.3};
    return std::make_unique<KnownMeter>(kFigures.at(evaluations_++));
  }

 private:
  class KnownMeter final : public Meter {
   public:
    explicit KnownMeter(double figure) : figure_(figure) {}
    void add(const Fields&, const Fields&) override {}
    void merge(Communicator&) override {}
    Metrics result() const override { return {.values = {{"AP", figure_}}, .primary = "AP"}; }
    std::shared_ptr<const DetectionExamples> detections() const override {
      DetectionExamples examples;
      examples.curves.push_back({.name = "bbox", .ap = figure_});
      return std::make_shared<const DetectionExamples>(examples);
    }

   private:
    double figure_;
  };

  mutable std::size_t evaluations_ = 0;
};

// Trains for 20 steps with an evaluation every 5 steps. Returns the file of detections.
DetectionsFile trained(BestBy best) {
  Registries registries;
  registries.tasks.add({{"figures", "known figures", {{"AP", "AP", true}}},
                        [](const TaskSetup& s) { return std::make_unique<TaskOfFigures>(s); }});
  ExperimentConfig config = test::two_views_config();
  config.task = "figures";
  config.train.eval_every = {5, false};
  config.train.best = best;
  const test::TempFolder folder;
  TrainerOptions options;
  options.output = folder.path() / "run";
  options.registries = &registries;
  EXPECT_EQ(train(config, options), RunStatus::kFinished);
  return read_detections(folder.read("run/detections.json"), "file");
}

TEST(DetectionsOfRuns, AreThoseOfBestEvaluation) {
  const DetectionsFile raw = trained(BestBy::kRaw);
  EXPECT_EQ(raw.step, 10);
  ASSERT_EQ(raw.curves.size(), 1U);
  EXPECT_EQ(raw.curves[0].ap, 0.6);
  const DetectionsFile average = trained(BestBy::kEma);
  EXPECT_EQ(average.step, 15);
  ASSERT_EQ(average.curves.size(), 1U);
  EXPECT_EQ(average.curves[0].ap, 0.4);
}

}  // namespace
}  // namespace dtn
