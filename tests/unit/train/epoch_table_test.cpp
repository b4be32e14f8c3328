#include "train/record/epoch_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace dtn {
namespace {

TEST(EpochTable, TakesTheFirstFigureOfAnEvaluation) {
  const auto figure = [](const char* text) {
    const ShownFigure found = first_figure(text);
    return found.name + "|" + found.value;
  };
  EXPECT_EQ(figure("top-1 87.83 %  top-5 99.00 %  loss 0.3241"), "top-1|87.83 %");
  EXPECT_EQ(figure("box AP 40.10  AP50 60.00"), "box AP|40.10");
  EXPECT_EQ(figure("mAP 0.9812"), "mAP|0.9812");
  EXPECT_EQ(figure("loss 0.1234  mse 0.1"), "|");
  EXPECT_EQ(figure("features"), "|");
  EXPECT_EQ(figure(""), "|");
}

Metrics top1(const char* value) {
  return {.values = {{"top1", 0}, {"loss", 0.5}},
          .primary = "top1",
          .text = std::string("top-1 ") + value + "  loss 0.5000"};
}

TEST(EpochTable, RowsHaveMeansSinceTheLastRowIn80Columns) {
  TrainConfig train;
  const RunPeriods periods(train, 4, 8);
  EpochTable table(periods, "images");
  const TrainingClock clock(16);
  for (double loss : {1.0, 2.0, std::numeric_limits<double>::infinity()}) table.add(loss, clock);
  const Metrics first = top1("50.00 %"), last = top1("75.00 %");
  const std::string one = table.row(4, 1e-3, &first, true, "1 min 02 s", false);
  EXPECT_EQ(one,
            "     epoch      loss  val loss         lr       top-1     images/s          left\n"
            "       1/2    1.5000    0.5000   1.00e-03     50.00 %*         0.0    1 min 02 s\n");
  table.add(0.25, clock);
  // A row so soon is left out, except after the last step; its loss counts in the next row.
  EXPECT_EQ(table.row(6, 1e-3, &last, true, "1.0 s", false), "");
  EXPECT_EQ(table.row(7, 1e-3, nullptr, false, "1.0 s", false), "");
  table.add(0.75, clock);
  const std::string two = table.row(8, 1e-4, &last, true, "0.0 s", true);
  EXPECT_EQ(
      two,
      "       2/2    0.5000    0.5000   1.00e-04\033[32m     75.00 %*\033[0m         0.0         "
      "0.0 s\n");
}

// Short epochs without an evaluation have no row.
TEST(EpochTable, EpochsWithoutAnEvaluationDoNotHideEvaluations) {
  TrainConfig train;
  const RunPeriods periods(train, 4, 400);
  EpochTable table(periods, "images");
  EXPECT_EQ(table.row(4, 1e-3, nullptr, false, "9 s", false), "");
  const Metrics first = top1("50.00 %");
  EXPECT_NE(table.row(8, 1e-3, &first, true, "9 s", false).find("     2/100 "), std::string::npos);
}

TEST(EpochTable, RowsWithoutAnEvaluationLeaveItsColumnsEmpty) {
  TrainConfig train;
  const RunPeriods periods(train, 4, 4);
  EpochTable table(periods, "images");
  EXPECT_EQ(table.row(4, 1e-3, nullptr, false, "0.0 s", true),
            "     epoch      loss  val loss         lr                 images/s          left\n"
            "       1/1         -             1.00e-03                      0.0         0.0 s\n");
}

}  // namespace
}  // namespace dtn
