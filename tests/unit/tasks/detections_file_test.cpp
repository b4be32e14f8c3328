#include "tasks/detect_examples/detections_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/core/check.h"
#include "tasks/detect_examples/example_images.h"
#include "texts.h"
#include "thread_ranks.h"

namespace dtn {
namespace {

using test::expect_error;

DetectionExample example(std::int64_t index) {
  return {.index = index,
          .width = 640,
          .height = 480,
          .truths = {{.box = {1.5, 2, 30.25, 40}, .label = 3, .mask = "abc0"},
                     {.box = {0, 0, 640, 480}, .label = 0, .crowd = true}},
          .detections = {{.box = {0.1, 1.0 / 3, 29, 41}, .label = 3, .score = 0.7, .mask = "`\\"}}};
}

DetectionsFile example_file() {
  DetectionsFile file{.step = 1200, .classes = {"disc", "a \"b\" <c>"}};
  file.images.push_back({"val/a b.jpg", "00000007.png", example(7)});
  file.images.push_back({"val/c.jpg", "00000012.png", example(12)});
  PrecisionCurves curves{.name = "bbox", .ap = 0.447};
  for (std::size_t t = 0; t < PrecisionCurves::kThresholds; ++t) {
    for (std::size_t r = 0; r < PrecisionCurves::kRecalls; ++r) {
      curves.precision[t][r] = 1.0 / static_cast<double>(1 + t + r);
    }
  }
  file.curves = {curves, curves};
  file.curves[1].name = "segm";
  file.curves[1].precision[9].fill(-1);
  return file;
}

// Returns the text of a file with one part replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = detections_json(example_file());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(DetectionsFile, IsReadAsWritten) {
  const DetectionsFile file = example_file();
  EXPECT_EQ(read_detections(detections_json(file), "file"), file);
  const DetectionsFile empty;
  EXPECT_EQ(read_detections(detections_json(empty), "file"), empty);
}

TEST(DetectionsFile, NamesClasses) {
  const DetectionsFile file = example_file();
  EXPECT_EQ(file.class_name(0), "disc");
  EXPECT_EQ(file.class_name(2), "class 2");
  EXPECT_EQ(file.class_name(-1), "class -1");
}

TEST(DetectionsFile, BytesThatAreNoTextAreReplaced) {
  DetectionsFile file = example_file();
  file.classes[0] = "a\xFF";
  EXPECT_EQ(read_detections(detections_json(file), "file").classes[0], "a\xEF\xBF\xBD");
}

TEST(DetectionsFile, LeavesOutObjectsOfDivergedModel) {
  DetectionsFile file = example_file();
  std::vector<ExampleObject>& detections = file.images[0].image.detections;
  const ExampleObject good = detections[0];
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), 1e7}) {
    detections.push_back(good);
    detections.back().box[2] = bad;
    detections.push_back(good);
    detections.back().score = bad;
  }
  EXPECT_EQ(read_detections(detections_json(file), "file"), example_file());
}

TEST(DetectionsFile, RefusesOtherTexts) {
  const auto refuses = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error<DataError>([&] { read_detections(text, "run/detections.json"); }, parts);
  };
  refuses("", {"run/detections.json", "is not JSON"});
  refuses("[1, 2]", {"has no 'step'"});
  refuses(std::string(100'000, '['), {"is not JSON"});
  refuses(changed("\"step\":1200", "\"step\":-1"), {"step", "whole number"});
  refuses(changed("\"step\":1200", "\"step\":1e300"), {"step", "whole number"});
  refuses(changed("\"step\":1200", "\"step\":18446744073709551615"), {"step", "whole number"});
  refuses(changed("\"disc\"", "5"), {"classes[0]", "is not a text"});
  refuses(changed("0.447", "1.5"), {"curves[0].ap", "is not a number from -1 to 1"});
  refuses(changed("[[1.0,0.5,", "[[1.0,"), {"precision[0]", "has not 101 values"});
  refuses(changed("[[1.0,0.5,", "[[1.0,0.5,0.5,"), {"precision[0]", "more than 101"});
  refuses(changed("[[1.0,0.5,", "[[1.0,null,"), {"precision[0][1]"});
  refuses(changed("\"width\":640", "\"width\":0"), {"images[0].width"});
  refuses(changed("\"width\":640,\"height\":480", "\"width\":65000,\"height\":65000"),
          {"images[0]", "65000 x 65000 pixels"});
  refuses(changed("[1.5,2.0,30.25,40.0]", "[1.5,2.0,30.25]"), {"truths[0].box", "four"});
  refuses(changed("[1.5,2.0,30.25,40.0]", "[1.5,2.0,30.25,4e9]"), {"truths[0].box[3]"});
  refuses(changed("\"score\":0.7", "\"score\":\"0.7\""), {"detections[0].score"});
  refuses(changed("\"label\":3", "\"label\":3.5"), {"truths[0].label", "whole number"});
  refuses(changed("\"mask\":\"abc0\"", "\"mask\":{}"), {"truths[0].mask", "is not a text"});
  refuses(changed("\"crowd\":true", "\"crowd\":1"), {"truths[1].crowd"});
}

TEST(DetectionsFile, PicturesLieInFolder) {
  for (const char* name : {"", ".", "..", "/etc/passwd", "../a.png", "a/b.png", ".hidden",
                           "a\\\\b.png", "a\\u0000.png"}) {
    expect_error<DataError>([&] { read_detections(changed("00000007.png", name), "file"); },
                            {"images[0].picture", "is not the name of a file"});
  }
}

TEST(DetectionsFile, HasLimits) {
  DetectionsFile file;
  file.images.assign(65, example_file().images[0]);
  expect_error<DataError>([&] { read_detections(detections_json(file), "file"); },
                          {"images", "65 values"});
  std::string many = detections_json(example_file());
  const std::string crowd = "\"crowd\":true}";
  const std::size_t after = many.find(crowd) + crowd.size();
  for (int i = 0; i < 4999; ++i) many.insert(after, R"(,{"label":0,"box":[0,0,1,1]})");
  expect_error<DataError>([&] { read_detections(many, "file"); }, {"5001 values"});
}

// A crowded image must not make the file unreadable.
TEST(DetectionsFile, HoldsFirstTruthsOfCrowdedImage) {
  DetectionsFile file = example_file();
  std::vector<ExampleObject>& truths = file.images[0].image.truths;
  truths.resize(6000, truths[0]);
  const DetectionsFile read = read_detections(detections_json(file), "file");
  truths.resize(5000);
  EXPECT_EQ(read, file);
}

TEST(ExampleImages, AreSpreadOverDataSet) {
  EXPECT_EQ(example_images(5000),
            (std::vector<std::int64_t>{0, 714, 1428, 2142, 2856, 3570, 4284, 4999}));
  EXPECT_EQ(example_images(8), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(example_images(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(example_images(1), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(example_images(0).empty());
}

TEST(ExampleImages, AreGatheredFromRanks) {
  const std::vector<DetectionExample> all{example(2), example(5), example(9), example(30)};
  testing::with_ranks(3, [&](Communicator& ranks) {
    // The second rank has no image, and two ranks have the same.
    std::vector<DetectionExample> own;
    if (ranks.rank() == 0) own = {all[3], all[1]};
    if (ranks.rank() == 2) own = {all[2], all[0], all[1]};
    EXPECT_EQ(gather_examples(own, ranks), all);
    EXPECT_TRUE(gather_examples({}, ranks).empty());
  });
  Communicator single;
  EXPECT_EQ(gather_examples({all[1], all[0]}, single), (std::vector{all[0], all[1]}));
}

}  // namespace
}  // namespace dtn
