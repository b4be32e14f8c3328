// The page on where a model of images with any number of classes is wrong.
#include "apps/report/label_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "apps/report/label_report_figures.h"
#include "dtn/core/check.h"
#include "texts.h"
#include "xml_check.h"

namespace dtn {
namespace {

void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) test::expect_contains(text, part);
}

// Three samples: the first is right, the second misses a dog, the third has a cat and no dog, but
// the model says the opposite.
LabelReport example() {
  LabelReport report;
  report.title = "Where <a> is wrong";
  report.classes = {"cat", "dog & co", "fish"};
  report.indices = {4, 7, 9};
  report.logits = {2, -2, -4, 3, -1, -4, -3, 5, -4};
  report.labels = {1, 0, 0, 1, 1, 0, 1, 0, 0};
  report.figures = label_figures(report.answers(), 0.5);
  report.name = [](std::int64_t index) { return cat("<i>/", index, ".png"); };
  report.picture = [](std::int64_t) { return std::string("png"); };
  return report;
}

TEST(LabelReports, OrderWrongSamplesByWorstDecision) {
  const LabelReport report = example();
  const std::vector<WrongSample> wrong = worst_samples(report);
  ASSERT_EQ(wrong.size(), 2U);
  EXPECT_EQ(wrong[0].index, 9);
  EXPECT_EQ(wrong[0].worst.label, 1);
  EXPECT_FALSE(wrong[0].worst.truth);
  EXPECT_NEAR(wrong[0].worst.loss, 5.0067, 1e-4);
  EXPECT_EQ(wrong[1].index, 7);
  EXPECT_EQ(wrong[1].worst.label, 1);
  EXPECT_TRUE(wrong[1].worst.truth);
}

// With another threshold, other decisions are wrong.
TEST(LabelReports, DecideAtThreshold) {
  LabelReport report = example();
  report.figures.threshold = 0.01;
  EXPECT_TRUE(decisions_of(report, 0)[2].predicted);
  EXPECT_EQ(worst_samples(report).size(), 3U);
}

TEST(LabelReports, AreOnePageWithoutMarkupOfNames) {
  const std::string page = label_report_page(example());
  expect_contains(page, {"Where &lt;a&gt; is wrong", "dog &amp; co", "mAP", "micro F1",
                         "1 of 3 images", "missed: dog", "not labelled: dog",
                         "Precision over recall", "Figures over the threshold"});
  EXPECT_EQ(page.find("<i>/"), std::string::npos);
  EXPECT_LT(page.find("not labelled: dog"), page.find("missed: dog"));
}

TEST(LabelReports, OfSamplesWithoutPicturesHaveLists) {
  LabelReport report = example();
  report.picture = nullptr;
  expect_contains(label_report_page(report), {"missed: dog"});
}

TEST(LabelReports, WithoutErrorsSaySo) {
  LabelReport report = example();
  report.indices = {4}, report.logits.resize(3), report.labels.resize(3);
  report.figures = label_figures(report.answers(), 0.5);
  expect_contains(label_report_page(report), {"No error.", "1 of 1 image"});
}

TEST(LabelReports, WithoutClassesHaveNoCurves) {
  LabelReport report = example();
  std::ranges::fill(report.labels, std::uint8_t{0});
  report.figures = label_figures(report.answers(), 0.5);
  EXPECT_EQ(label_report_page(report).find("Precision over recall"), std::string::npos);
  EXPECT_TRUE(curve_of(report, 0, 10).empty());
}

TEST(LabelReports, DrawAtMostSomeCurves) {
  LabelReport report;
  for (std::size_t k = 0; k < kDrawnCurves + 9; ++k) report.classes.push_back(cat("class ", k));
  const std::size_t classes = report.classes.size();
  report.indices = {0, 1};
  for (std::size_t i = 0; i < 2 * classes; ++i) {
    report.logits.push_back(static_cast<float>(i % 5));
    report.labels.push_back(i < classes);
  }
  report.figures = label_figures(report.answers(), 0.5);
  const plot::Figure figure = curves_figure(report);
  EXPECT_EQ(figure.table.rows.size(), kDrawnCurves);
  expect_contains(figure.caption, {"Of 33 classes, the 24 with the lowest"});
  EXPECT_EQ(xml_fault(figure.svg), "");
  EXPECT_EQ(xml_fault(figure.phone_svg), "");
}

TEST(LabelReports, ShortenCurvesToTheirEnds) {
  LabelReport report;
  report.classes = {"one"};
  for (int i = 0; i < 1000; ++i) {
    report.indices.push_back(i);
    report.logits.push_back(static_cast<float>(-i));
    report.labels.push_back(i % 3 == 0);
  }
  report.figures = label_figures(report.answers(), 0.5);
  const auto curve = curve_of(report, 0, 100);
  EXPECT_LE(curve.size(), 102U);
  EXPECT_EQ(curve.front().score, 0);
  EXPECT_EQ(curve.back().score, -999);
  EXPECT_EQ(curve.back().recall, 1);
}

TEST(LabelReports, MeasureOverThresholds) {
  const LabelReport report = example();
  const auto all = over_thresholds(report);
  ASSERT_EQ(all.size(), 99U);
  EXPECT_DOUBLE_EQ(all[49].threshold, 0.5);
  EXPECT_DOUBLE_EQ(all[49].f1, report.figures.f1_micro);
}

}  // namespace
}  // namespace dtn
