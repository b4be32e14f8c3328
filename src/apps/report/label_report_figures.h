// Figures of the page on images with any number of classes.
#pragma once

#include "apps/report/label_report.h"

namespace dtn {

// Most classes whose curves are drawn: those with the smallest average precision.
inline constexpr std::size_t kDrawnCurves = 24;

// Returns precision over recall of each class. Some class must have a sample.
plot::Figure curves_figure(const LabelReport& report);

// Returns precision, recall and F1 over the threshold.
plot::Figure threshold_figure(const LabelReport& report);

}  // namespace dtn
