// Files of dtn-eval --report for samples with any number of classes.
#pragma once

#include <filesystem>

#include "apps/eval/model_reporter.h"
#include "apps/report/label_report.h"

namespace dtn::app {

// Writes report.json. All figures but the losses are fractions:
//   map f1_micro f1_macro threshold loss count skipped
//   classes  [{name support predicted precision recall f1 ap}], in label order; ap is null if no
//            sample has the class
//   curves   [[[recall, precision, probability], ...]], for each class by falling probability, at
//            most about 100 points; empty if no sample has the class
//   over_threshold  [{threshold precision recall f1}], over all classes
//   worst    [{file truth prediction label probability loss}], at most 100: samples with an error,
//            by falling loss of their worst decision. truth and prediction are lists of labels;
//            label, probability and loss are of that decision
void write_label_report_json(const std::filesystem::path& path, const LabelReport& report,
                             const SamplePlace& file);

// Writes classes.csv, thresholds.csv, and samples.csv with the decisions that are a truth, a
// prediction or both, in the order of the data.
void write_label_report_tables(const std::filesystem::path& folder, const LabelReport& report,
                               const SamplePlace& file);

}  // namespace dtn::app
