// Files of results: reading, writing, and how they fit the truths.
#include "data/coco/results.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "coco_text.h"
#include "temp_folder.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

const std::string kPlain =
    R"({"image_id": 7, "category_id": 90, "bbox": [1, 2, 3.5, 4], "score": 0.25})";

CocoResults written_and_read(const CocoResults& results) {
  const TempFolder folder;
  write_coco_results(folder.path() / "results.json", results);
  return read_coco_results(folder.path() / "results.json");
}

void expect_equal(const CocoResults& a, const CocoResults& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.mask_count(), b.mask_count());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].image_id, b[i].image_id);
    EXPECT_EQ(a[i].category_id, b[i].category_id);
    EXPECT_EQ(a[i].box, b[i].box);
    EXPECT_EQ(a[i].score, b[i].score);
    ASSERT_EQ(a.has_mask(i), b.has_mask(i));
    if (a.has_mask(i)) {
      EXPECT_EQ(a.mask(i), b.mask(i));
    }
  }
}

TEST(CocoResults, ReadsBoxes) {
  const CocoResults results =
      results_of("[" + kPlain + R"(, {"score": 1, "bbox": [0, 0, 1, 1], "category_id": -2,
                                      "image_id": 9007199254740993, "id": "none"}])");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].image_id, 7);
  EXPECT_EQ(results[0].category_id, 90);
  EXPECT_EQ(results[0].box, (std::array<double, 4>{1, 2, 3.5, 4}));
  EXPECT_EQ(results[0].score, 0.25);
  EXPECT_EQ(results[1].image_id, 9007199254740993);
  EXPECT_FALSE(results.has_mask(0));
  EXPECT_EQ(results.mask_count(), 0u);
  EXPECT_EQ(results_of(" [ ] ").size(), 0u);
}

TEST(CocoResults, ReadsMasks) {
  const CocoResults results =
      results_of("[" + kPlain + R"(, {"image_id": 7, "category_id": 90, "score": 0.5,
      "segmentation": {"size": [4, 10], "counts": "52Q1"}}, {"image_id": 7, "category_id": 90,
      "bbox": [0, 0, 1, 1], "score": 0.5, "segmentation": {"size": [4, 10], "counts": [0, 40]}}])");
  ASSERT_EQ(results.size(), 3u);
  EXPECT_FALSE(results.has_mask(0));
  EXPECT_EQ(results.mask(1), (Rle{4, 10, {5, 2, 33}}));
  EXPECT_EQ(results[1].box, (std::array<double, 4>{1, 1, 1, 2})) << "bounds of the mask";
  EXPECT_EQ(results.mask(2), (Rle{4, 10, {0, 40}}));
  EXPECT_EQ(results[2].box, (std::array<double, 4>{0, 0, 1, 1}));
}

TEST(CocoResults, WritesNumbersThatReadBackExactly) {
  std::mt19937_64 random(3);
  CocoResults results;
  for (int i = 0; i < 30'000; ++i) {  // more than a piece of the writer
    CocoResult r{static_cast<std::int64_t>(random()), i, {}, 0};
    for (double& value : r.box) value = std::ldexp(double(random() >> 11), int(random() % 60) - 60);
    r.score = static_cast<float>(random() % 1000) / 999.0f;
    results.add(r);
  }
  results.add({1, 2, {-0.0, 5e-324, 1e300, 1.0 / 3}, 1e-17});
  expect_equal(written_and_read(results), results);
}

TEST(CocoResults, WritesMasks) {
  CocoResults results;
  const std::vector<std::int64_t> runs = {5, 44, 1, 0, 350};  // 44 has a backslash in its text
  const Rle mask = rle_of_runs(20, 20, runs);
  ASSERT_NE(rle_text(mask).find('\\'), std::string::npos);
  results.add({1, 2, {0, 1, 2, 3}, 0.5}, mask);
  results.add({1, 2, {0, 1, 2, 3}, 0.25});
  results.add({1, 3, {0, 1, 2, 3}, 0.5}, rle_of_runs(1, 2, std::vector<std::int64_t>{2}));
  expect_equal(written_and_read(results), results);
  expect_equal(written_and_read({}), {});
}

TEST(CocoResults, WritesNothingThatJsonCannotHold) {
  CocoResults results;
  results.add({1, 2, {0, 1, 2, 3}, std::nan("")});
  const TempFolder folder;
  const fs::path file = folder.path() / "results.json";
  EXPECT_THROW(write_coco_results(file, results), DataError);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_THROW(write_coco_results("/nowhere/results.json", {}), Error);
}

TEST(CocoResults, RefusesDamagedFiles) {
  EXPECT_TRUE(has_parts(result_error("{}"), {"r.json: at byte 1", "a list of objects"}));
  EXPECT_TRUE(has_parts(result_error("[3]"), {"'results' must hold objects, not 3"}));
  EXPECT_TRUE(has_parts(result_error("[" + kPlain), {"cut short"}));
  EXPECT_TRUE(has_parts(result_error("[" + kPlain + R"(, {"image_id": 7, "category_id": 1}])"),
                        {"results[1]", "lacks score"}));
  EXPECT_TRUE(has_parts(result_error(R"([{"image_id": 7, "score": 1, "category_id": 1}])"),
                        {"results[0]", "lacks bbox and segmentation"}));
  EXPECT_TRUE(has_parts(result_error(R"([{"image_id": 7, "category_id": 1, "score": NaN}])"),
                        {"results[0]", "JSON has no NaN"}));
  EXPECT_TRUE(has_parts(
      result_error(R"([{"image_id": 7, "category_id": 1, "score": 1, "segmentation": [[1, 2]]}])"),
      {"an object with size and counts"}));
  EXPECT_TRUE(has_parts(result_error(R"([{"segmentation": {"size": [2, 2], "counts": "3"}}])"),
                        {"results[0]", "add up to 3"}));
}

TEST(CocoResults, MatchesTruths) {
  const CocoAnnotations truths = annotations_of(file_with(annotation()));
  CocoResults results;
  const auto mask = [](std::int64_t first) {
    return rle_of_runs(4, 10, std::vector<std::int64_t>{first, 40 - first});
  };
  results.add({7, 5, {}, 0.1}, mask(1));
  results.add({7, 90, {}, 0.2});
  results.add({5, 1, {}, 0.3});
  results.add({7, 4, {}, 0.4});
  results.add({7, 1, {}, 0.5}, mask(2));
  EXPECT_EQ(match_results(results, truths, "r.json"), 2);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].score, 0.2);
  EXPECT_EQ(results[2].score, 0.5);
  EXPECT_FALSE(results.has_mask(0));
  EXPECT_FALSE(results.has_mask(1));
  EXPECT_EQ(results.mask(2), mask(2));
  EXPECT_EQ(match_results(results, truths, "r.json"), 0);

  CocoResults elsewhere = results;
  elsewhere.add({8, 1, {}, 0.5});
  EXPECT_TRUE(has_parts(data_error([&] { match_results(elsewhere, truths, "r.json"); }),
                        {"r.json: results[3] is of image 8", "a.json"}));
  results.add({5, 1, {}, 0.5}, mask(1));
  EXPECT_TRUE(has_parts(data_error([&] { match_results(results, truths, "r.json"); }),
                        {"r.json: results[3] has a mask of 4 x 10", "image 5 has 48 x 64"}));
}

}  // namespace
}  // namespace dtn
