#include "apps/predict/predictions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "dtn/core/check.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

TEST(BestGuesses, SortByProbability) {
  const float logits[] = {1, 3, 2, 3};
  const std::vector<Guess> guesses = best_guesses(logits, 4, 3);
  ASSERT_EQ(guesses.size(), 3u);
  EXPECT_EQ(guesses[0].label, 1);  // the first of two equal logits
  EXPECT_EQ(guesses[1].label, 3);
  EXPECT_EQ(guesses[2].label, 2);
  const double sum = std::exp(-2) + 1 + std::exp(-1) + 1;
  EXPECT_DOUBLE_EQ(guesses[0].probability, 1 / sum);
  EXPECT_DOUBLE_EQ(guesses[2].probability, std::exp(-1) / sum);
}

TEST(BestGuesses, HandleLargeLogitsAndTooLargeCounts) {
  const float logits[] = {1000, -1000};
  const std::vector<Guess> guesses = best_guesses(logits, 2, 5);
  ASSERT_EQ(guesses.size(), 2u);
  EXPECT_EQ(guesses[0].probability, 1);
  EXPECT_EQ(guesses[1].probability, 0);
}

TEST(BestGuesses, PutNaNLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float logits[] = {nan, -1, nan, 4};
  const std::vector<Guess> guesses = best_guesses(logits, 4, 4);
  EXPECT_EQ(guesses[0].label, 3);
  EXPECT_EQ(guesses[1].label, 1);
}

TEST(PredictionWriter, QuotesCsvFields) {
  const fs::path path = fs::path(testing::TempDir()) / "predictions.csv";
  fs::remove(path);  // left by an earlier run
  {
    PredictionWriter writer({.csv = path.string()}, {"plain", "a, \"b\""});
    writer.add("x,y.png", {{1, 0.75}, {2, 0.25}});
    EXPECT_FALSE(fs::exists(path));
    writer.finish();
  }
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(),
            "file,rank,label,name,probability\n"
            "\"x,y.png\",1,1,\"a, \"\"b\"\"\",0.75\n"
            "\"x,y.png\",2,2,class 2,0.25\n");
}

TEST(PredictionWriter, LeavesNoIncompleteTable) {
  const fs::path folder = fs::path(testing::TempDir()) / "tables";
  fs::create_directories(folder);
  { PredictionWriter writer({.csv = (folder / "a.csv").string()}, {}); }
  EXPECT_TRUE(fs::is_empty(folder));
}

}  // namespace
}  // namespace dtn::app
