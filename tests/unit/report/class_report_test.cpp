#include "apps/report/class_report.h"

#include <gtest/gtest.h>

#include "apps/report/class_report_figures.h"
#include "dtn/core/check.h"
#include "texts.h"
#include "xml_check.h"

namespace dtn {
namespace {

using test::expect_contains;

ClassifiedSample sample(std::int64_t index, std::int32_t truth, std::int32_t prediction,
                        double loss) {
  return {.index = index,
          .truth = truth,
          .prediction = prediction,
          .rank = truth == prediction ? 0 : 1,
          .probability = 0.75,
          .loss = loss};
}

ClassReport report_of(std::vector<ClassifiedSample> samples, std::vector<std::string> classes) {
  ClassReport report;
  report.title = "Where <a> is wrong";
  report.classes = std::move(classes);
  report.figures = figures_of(samples, std::ssize(report.classes));
  report.samples = std::move(samples);
  report.name = [](std::int64_t index) { return cat("<i>/", index, ".png"); };
  report.picture = [](std::int64_t index) { return index == 4 ? std::string() : "png"; };
  return report;
}

// Cats are taken for dogs three times; the picture of sample 4 is damaged. No sample is a fish.
ClassReport example() {
  return report_of(
      {sample(0, 0, 0, 0.1), sample(1, 0, 1, 2), sample(2, 1, 1, 0.1), sample(3, 0, 1, 4),
       sample(4, 0, 1, 9), sample(5, 1, 0, 1), sample(6, 1, 1, 0.1)},
      {"cat", "dog & co", "fish"});
}

// Classes of which each is confused with the next one, the first ones the most.
ClassReport many_classes(std::int32_t classes) {
  std::vector<ClassifiedSample> samples;
  std::vector<std::string> names;
  for (std::int32_t c = 0; c < classes; ++c) {
    names.push_back(cat("class number ", c));
    for (std::int32_t i = 0; i < 60; ++i) {
      const bool wrong = i < 40 - c && c % 2 == 0;
      samples.push_back(sample(std::ssize(samples), c, wrong ? c + 1 : c, wrong ? 2 : 0.1));
    }
  }
  return report_of(std::move(samples), std::move(names));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++count;
  }
  return count;
}

TEST(ClassReports, AreOnePageWithoutMarkupOfNames) {
  const std::string page = class_report_page(example());
  EXPECT_EQ(xml_fault(page, true), "");
  EXPECT_EQ(page.find("<script"), page.rfind("<script>")) << "only the script of the page";
  EXPECT_EQ(page.find("<i>"), std::string::npos);
  expect_contains(page, "3 of 7 images are right: top-1 42.86 %.");
  expect_contains(page, "the mean over all 3 classes; 0.4167 over the 2 that occur.");
  expect_contains(page,
                  "the model is too sure, with a mean probability of 75.0 % and 42.9 % right");
  expect_contains(page, "No image belongs to fish.");
}

TEST(ClassReports, ShowConfusionsAndWrongImagesWorstFirst) {
  const std::string page = class_report_page(example());
  expect_contains(page, "<h3>cat taken for dog &amp; co <span>3 of 4 (75.0 %)</span></h3>");
  const std::size_t cats = page.find("cat taken for dog"), dogs = page.find("co taken for cat");
  ASSERT_NE(dogs, std::string::npos);
  EXPECT_LT(cats, dogs);
  // The damaged picture is left out. Each other wrong image is shown twice.
  EXPECT_EQ(count_of(page, "<img alt="), 6u);
  EXPECT_EQ(page.find("/4.png"), std::string::npos);
  EXPECT_LT(page.find("/3.png"), page.find("/1.png"));
  expect_contains(page, "cat, taken for dog &amp; co, 75.0 %");
}

TEST(ClassReports, SortClassesWithUndefinedValuesLast) {
  const std::string page = class_report_page(example());
  // F1 of cats 1/3 and of dogs 1/2; precision of cats 1/2 and of dogs 2/5; 4, 3 and 0 images.
  expect_contains(page,
                  "<tr style=\"--o0:1;--o1:1;--o2:2;--o3:1;--o4:3;--o5:1;\"><td>cat</td>"
                  "<td>33.3</td><td>25.0</td><td>50.0</td><td>4</td><td>2</td>"
                  "<td>dog &amp; co (75.0 %)</td></tr>");
  expect_contains(page, "<tr style=\"--o0:2;--o1:2;--o2:1;--o3:2;--o4:2;--o5:2;\"><td>dog");
  expect_contains(page,
                  "<tr style=\"--o0:3;--o1:3;--o2:3;--o3:3;--o4:1;--o5:3;\"><td>fish</td>"
                  "<td>-</td><td>-</td><td>-</td><td>0</td><td>0</td><td>-</td></tr>");
}

TEST(ClassReports, OfSamplesWithoutPicturesHaveLists) {
  ClassReport report = example();
  report.picture = nullptr;
  report.noun = "sequences";
  const std::string page = class_report_page(report);
  EXPECT_EQ(xml_fault(page, true), "");
  EXPECT_EQ(page.find("<img"), std::string::npos);
  expect_contains(page, "<td>cat taken for dog &amp; co</td><td>3 of 4 (75.0 %)</td>");
  expect_contains(page, "<td>&lt;i&gt;/4.png</td><td>cat</td><td>dog &amp; co</td>");
  expect_contains(page, "7 sequences");
}

TEST(ClassReports, WithoutErrorsSaySo) {
  const std::string page = class_report_page(report_of({sample(0, 0, 0, 0.1)}, {"cat", "dog"}));
  EXPECT_EQ(xml_fault(page, true), "");
  expect_contains(page, "1 of 1 image is right: top-1 100.00 %.");
  expect_contains(page, "<p>No error.</p>");
  ClassReport many = many_classes(40);
  for (ClassifiedSample& s : many.samples) s = sample(s.index, s.truth, s.truth, 0.1);
  many.figures = figures_of(many.samples, 40);
  EXPECT_EQ(class_report_page(many).find("Confusion matrix"), std::string::npos);
}

TEST(ClassReports, DrawFewClassesInFull) {
  const plot::Figure figure = confusion_figure(example());
  EXPECT_EQ(xml_fault(figure.svg), "");
  EXPECT_EQ(xml_fault(figure.phone_svg), "");
  expect_contains(figure.svg, "number of images");
  expect_contains(figure.svg, ">fish<");
  EXPECT_EQ(figure.svg.find(">others<"), std::string::npos);
  EXPECT_EQ(figure.table.rows,
            (std::vector<std::vector<std::string>>{{"cat", "dog & co", "3", "4", "75.0"},
                                                   {"dog & co", "cat", "1", "3", "33.3"}}));
}

TEST(ClassReports, DrawTheMostConfusedOfManyClasses) {
  const plot::Figure figure = confusion_figure(many_classes(40));
  expect_contains(figure.svg, "30 classes that are confused the most");
  expect_contains(figure.svg, ">class number 0<");
  expect_contains(figure.svg, ">others<");
  EXPECT_EQ(figure.svg.find(">class number 38<"), std::string::npos);
  expect_contains(figure.caption, "Of 40 classes");
  expect_contains(figure.phone_svg, "12 classes that are confused the most");
  expect_contains(figure.phone_svg, ">class number 10<");
  EXPECT_EQ(figure.phone_svg.find(">class number 12<"), std::string::npos);
}

TEST(ClassReports, FiguresOfProbabilities) {
  const plot::Figure reliability = reliability_figure(example()), top_k = top_k_figure(example());
  EXPECT_EQ(xml_fault(reliability.svg), "");
  expect_contains(reliability.svg, "calibration error 32.1 %");
  ASSERT_EQ(reliability.table.rows.size(), kCalibrationBins);
  EXPECT_EQ(reliability.table.rows[11],
            (std::vector<std::string>{"73.3 to 80.0", "7", "75.0", "42.9"}));
  EXPECT_EQ(reliability.table.rows[0], (std::vector<std::string>{"0.0 to 6.7", "0", "-", "-"}));
  EXPECT_EQ(xml_fault(top_k.svg), "");
  EXPECT_EQ(top_k.table.rows, (std::vector<std::vector<std::string>>{
                                  {"1", "42.86"}, {"2", "100.00"}, {"3", "100.00"}}));
}

}  // namespace
}  // namespace dtn
