// A page on where a classifier is wrong: confused classes, wrong samples, figures of each class and
// calibration.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plot/page.h"
#include "tasks/class_figures/class_figures.h"

namespace dtn {

// An evaluation of a classifier.
struct ClassReport {
  std::string title;                      // of the page
  std::vector<std::string> lead = {};     // model and data, one line each
  std::string noun = "images";            // of the samples, in the plural
  std::vector<std::string> classes = {};  // names in label order, [K]
  std::vector<ClassifiedSample> samples = {};
  ClassificationFigures figures = {};
  std::int64_t skipped = 0;  // damaged samples
  // Name of a sample for people, by its index in the data set.
  std::function<std::string(std::int64_t)> name = {};
  // Bytes of the PNG or JPEG file of a sample, as the model saw it; empty: damaged. Not set: the
  // samples are no images.
  std::function<std::string(std::int64_t)> picture = {};
  bool pixelated = false;  // the pictures are so small that a page enlarges them

  const std::string& class_name(std::int64_t label) const {
    return classes[static_cast<std::size_t>(label)];
  }
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
