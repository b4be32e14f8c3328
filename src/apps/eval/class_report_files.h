// Files of dtn-eval --report: report.html, report.json, and tables as CSV.
#pragma once

#include <filesystem>

#include "apps/eval/model_reporter.h"
#include "apps/report/class_report.h"

namespace dtn::app {

// Most wrong samples in report.json.
inline constexpr std::size_t kWorstInJson = 100;

// Writes report.json. `top1` is in percent; all other figures but the losses are fractions:
//   top1 macro_f1 macro_f1_present ece loss count skipped
//   top_k        [k = 1 .. min(K, 10)]
//   reliability  [{from to count confidence accuracy}], 15 bins
//   confusion    [K][K] numbers of samples, rows are truths; null above kMaxMatrixInJson
//   classes      [{name support precision recall f1}], in label order
//   worst        [{file truth prediction probability loss}], at most kWorstInJson; truth and
//                prediction are labels
void write_report_json(const std::filesystem::path& path, const ClassReport& report,
                       const SamplePlace& file);

// Writes classes.csv, confusions.csv (the entries that are not 0), reliability.csv, top_k.csv, and
// samples.csv with all samples in the order of the data.
void write_report_tables(const std::filesystem::path& folder, const ClassReport& report,
                         const SamplePlace& file);

}  // namespace dtn::app
