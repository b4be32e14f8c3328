// Predictions of images with one class and with any number.
#include "apps/predict/predictions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "temp_folder.h"

namespace dtn::app {
namespace {

std::vector<std::int64_t> labels_of(const std::vector<Guess>& guesses) {
  std::vector<std::int64_t> labels;
  for (const Guess& guess : guesses) labels.push_back(guess.label);
  return labels;
}

using Labels = std::vector<std::int64_t>;

TEST(BestLabels, AreTheMostProbable) {
  const float logits[] = {-1, 3, 0, 3, -9};
  const auto two = best_labels(logits, 5, 2, 0.99);
  EXPECT_EQ(labels_of(two), (Labels{1, 3}));
  EXPECT_NEAR(two[0].probability, 1 / (1 + std::exp(-3.0)), 1e-15);
  EXPECT_FALSE(two[0].predicted);
}

TEST(BestLabels, AreAllThatReachThreshold) {
  const float logits[] = {-1, 3, 0, 3, -9};
  const auto found = best_labels(logits, 5, 1, 0.5);
  EXPECT_EQ(labels_of(found), (Labels{1, 3, 2}));
  for (const Guess& guess : found) EXPECT_TRUE(guess.predicted);
  EXPECT_EQ(labels_of(best_labels(logits, 5, 9, 0.5)), (Labels{1, 3, 2, 0, 4}));
  EXPECT_FALSE(best_labels(logits, 5, 9, 0.5)[3].predicted);
}

TEST(BestLabels, OfNanAreLast) {
  const float logits[] = {NAN, -3};
  EXPECT_EQ(labels_of(best_labels(logits, 2, 2, 0.5)), (Labels{1, 0}));
}

TEST(PredictionTables, SayWhatIsPredicted) {
  test::TempFolder folder;
  for (const bool any : {false, true}) {
    PredictionFormat format;
    format.csv = (folder.path() / "table.csv").string();
    if (any) format.threshold = 0.5;
    PredictionWriter writer(format, {"cat", "dog"});
    writer.add("a, b.png", {{1, 0.75, true}, {0, 0.25, false}});
    writer.finish();
    EXPECT_EQ(folder.read("table.csv"),
              any ? "file,rank,label,name,probability,predicted\n"
                    "\"a, b.png\",1,1,dog,0.75,1\n\"a, b.png\",2,0,cat,0.25,0\n"
                  : "file,rank,label,name,probability\n"
                    "\"a, b.png\",1,1,dog,0.75\n\"a, b.png\",2,0,cat,0.25\n");
  }
}

}  // namespace
}  // namespace dtn::app
