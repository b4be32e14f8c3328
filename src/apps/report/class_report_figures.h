// Figures of the page on where a classifier is wrong.
#pragma once

#include <cstddef>

#include "apps/report/class_report.h"

namespace dtn {

// Most classes of a drawn matrix. Of more classes, the most confused ones are drawn; see
// most_confused().
inline constexpr std::size_t kMatrixClasses = 30, kPhoneMatrixClasses = 12;

// Returns the confusion matrix as a heat map, with the list of confused pairs as its numbers. The
// report must have a wrong sample if it has more than kMatrixClasses classes.
plot::Figure confusion_figure(const ClassReport& report);

// Returns the accuracy over the probability of the prediction.
plot::Figure reliability_figure(const ClassReport& report);

// Returns the share of samples whose truth is among the k most probable classes.
plot::Figure top_k_figure(const ClassReport& report);

}  // namespace dtn
