// A page on where a model of images with any number of classes is wrong: wrong samples, figures of
// each class, and the choice of the threshold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/report/sample_report.h"
#include "plot/page.h"
#include "tasks/label_figures/label_figures.h"

namespace dtn {

// An evaluation of such a model.
struct LabelReport : SampleReport {
  std::vector<std::int64_t> indices = {};  // of the samples in the data set
  std::vector<float> logits = {};          // [samples, K]
  std::vector<std::uint8_t> labels = {};   // [samples, K], 0 or 1
  MultilabelFigures figures = {};

  LabelledLogits answers() const {
    return {static_cast<std::int64_t>(indices.size()), static_cast<std::int64_t>(classes.size()),
            logits, labels};
  }
};

// A decision for or against a class.
struct LabelDecision {
  std::int64_t label = 0;
  bool truth = false, predicted = false;
  double probability = 0;
  double loss = 0;  // -log of the probability of the truth

  bool is_wrong() const { return truth != predicted; }
};

// A sample with at least one wrong decision.
struct WrongSample {
  std::int64_t index = 0;    // in the data set
  std::size_t row = 0;       // in the report
  LabelDecision worst = {};  // the wrong decision with the largest loss
};

// Returns the decisions for a sample of the report, in label order.
std::vector<LabelDecision> decisions_of(const LabelReport& report, std::size_t row);

// Returns the wrong samples by falling loss of their worst decisions; equal losses by index.
std::vector<WrongSample> worst_samples(const LabelReport& report);

// Returns the curve of precision over recall of a class, with at most about `points` points. Empty
// if no sample has the class.
std::vector<PrecisionAtRecall> curve_of(const LabelReport& report, std::int64_t label,
                                        std::size_t points);

// Precision, recall and F1 over all decisions at a threshold.
struct ThresholdFigures {
  double threshold = 0, precision = 0, recall = 0, f1 = 0;
};
// Returns them for thresholds from 0.01 to 0.99.
std::vector<ThresholdFigures> over_thresholds(const LabelReport& report);

// Returns the page as one HTML file.
std::string label_report_page(const LabelReport& report);

}  // namespace dtn
