// Compares COCO's figures with those of pycocotools. The scenes and the expected values are in
// tests/golden/data/coco.txt, which make_coco_goldens.py writes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <ranges>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tasks/coco_figures/evaluator.h"

namespace dtn {
namespace {

constexpr double kTolerance = 1e-12;

struct CocoScene {
  std::string name;
  OverlapKind kind = OverlapKind::kBoxes;
  std::vector<std::int64_t> categories;
  // Images in the order of their first object.
  std::vector<std::int64_t> images;
  std::map<std::int64_t, std::vector<TruthObject>> truths;
  std::map<std::int64_t, std::vector<FoundObject>> found;
  std::map<std::string, std::vector<double>> expected;
};

template <class T>
std::vector<T> read_all(std::istream& words) {
  std::vector<T> values;
  for (T value; words >> value;) values.push_back(value);
  return values;
}

template <class Object>
std::int64_t read_place(std::istream& words, Object& object) {
  std::int64_t image = 0;
  words >> image >> object.category;
  for (double& value : object.box) words >> value;
  return image;
}

Rle read_mask(std::istream& words) {
  std::int64_t height = 0, width = 0;
  std::string counts;
  return words >> height >> width >> counts ? rle_of_text(height, width, counts) : Rle{};
}

void read_object(const std::string& kind, std::istream& words, CocoScene& scene) {
  std::int64_t image = 0;
  if (kind == "truth") {
    TruthObject truth;
    image = read_place(words, truth);
    words >> truth.area >> truth.crowd;
    truth.mask = read_mask(words);
    scene.truths[image].push_back(truth);
  } else {
    FoundObject found;
    image = read_place(words, found);
    words >> found.score;
    found.mask = read_mask(words);
    scene.found[image].push_back(found);
  }
  if (std::ranges::find(scene.images, image) == scene.images.end()) scene.images.push_back(image);
}

std::vector<CocoScene> read_scenes() {
  std::vector<CocoScene> scenes;
  std::ifstream in(DTN_TESTS_FOLDER "/golden/data/coco.txt");
  for (std::string line, word; std::getline(in, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "scene") {
      std::string kind;
      words >> scenes.emplace_back().name >> kind;
      scenes.back().kind = kind == "masks" ? OverlapKind::kMasks : OverlapKind::kBoxes;
    } else if (word == "categories") {
      scenes.back().categories = read_all<std::int64_t>(words);
    } else if (word == "truth" || word == "found") {
      read_object(word, words, scenes.back());
    } else {
      scenes.back().expected[word] = read_all<double>(words);
    }
  }
  return scenes;
}

void expect_near(std::span<const double> found, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], kTolerance) << what << " " << i;
  }
}

void expect_report(const CocoReport& report, const CocoScene& scene) {
  expect_near(report.figures, scene.expected.at("figures"), "figure");
  expect_near(report.class_ap, scene.expected.at("classes"), "category");
  std::vector<double> thresholds(kOverlapThresholds), recalls(kCocoRecalls);
  for (int t = 0; t < kOverlapThresholds; ++t) {
    for (int r = 0; r < kCocoRecalls; ++r) {
      thresholds[t] += report.precision[t][r] / kCocoRecalls;
      recalls[r] += report.precision[t][r] / kOverlapThresholds;
    }
  }
  expect_near(thresholds, scene.expected.at("thresholds"), "threshold");
  expect_near(recalls, scene.expected.at("recalls"), "recall");
}

TEST(GoldenCoco, FiguresEqualPycocotools) {
  const std::vector<CocoScene> scenes = read_scenes();
  ASSERT_GE(scenes.size(), 26u);
  for (const CocoScene& scene : scenes) {
    SCOPED_TRACE(scene.name);
    CocoEvaluator evaluator(scene.categories, scene.kind);
    const auto objects_of = [](const auto& objects, std::int64_t image) {
      const auto at = objects.find(image);
      return at == objects.end() ? std::decay_t<decltype(at->second)>{} : at->second;
    };
    for (std::int64_t image : scene.images) {
      evaluator.add(image, objects_of(scene.truths, image), objects_of(scene.found, image));
    }
    expect_report(evaluator.report(), scene);
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace dtn
