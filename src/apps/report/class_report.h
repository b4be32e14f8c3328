// A page on where a classifier is wrong: confused classes, wrong samples, figures of each class and
// calibration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/report/sample_report.h"
#include "plot/page.h"
#include "tasks/class_figures/class_figures.h"

namespace dtn {

// An evaluation of a classifier.
struct ClassReport : SampleReport {
  std::vector<ClassifiedSample> samples = {};
  ClassificationFigures figures = {};

  const ClassFigures& class_figures(std::int64_t label) const {
    return figures.classes[static_cast<std::size_t>(label)];
  }
};

// Largest number of classes whose confusion matrix report.json has.
inline constexpr std::size_t kMaxMatrixInJson = 5000;
// Limits of the page.
inline constexpr std::size_t kShownPairs = 12, kPicturesOfPair = 4, kShownWorst = 48;
inline constexpr std::size_t kListedPairs = 200;

// Returns the page as one HTML file. It has pictures of kShownPairs pairs of classes and of
// kShownWorst wrong samples.
std::string class_report_page(const ClassReport& report);

}  // namespace dtn
