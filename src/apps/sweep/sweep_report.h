// Tables and figures of a sweep.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/sweep/sweep_results.h"

namespace dtn {

struct SweepReport {
  const SweepConfig& sweep;
  std::vector<VariantResult> results;
  std::string output;                             // the sweep's folder; messages leave it out
  std::string command;                            // command that reproduces the sweep
  bool picture = false;                           // curves.svg and values.svg exist
  std::map<std::size_t, std::string> grids = {};  // files of pictures of samples, by variant
};

std::string to_markdown(const SweepReport& report);
std::string to_csv(const SweepReport& report);
std::string to_json(const SweepReport& report);
// Cells of the table, with one row for each variant.
struct TableText {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
TableText table_text(const SweepReport& report);
// Returns sentences that explain the columns.
std::vector<std::string> column_notes(const SweepReport& report);
// Returns sentences about results on robustness suites that are not comparable with others: with
// the paper's, or with those of other runs of the sweep.
std::vector<std::string> suite_notes(const SweepReport& report);
// Formats the table as Markdown with aligned columns.
std::string markdown_table(const TableText& table);
// Formats the notes as a Markdown list.
std::string markdown_list(const std::vector<std::string>& notes);

// Results of the variants on a corruption of ImageNet-C, on "clean" images, or their "mean" over
// the corruptions. The sweep's own table has only one figure for them.
struct CorruptionRow {
  struct Cell {
    std::optional<Statistics> error;  // top-1 error in percent, over the seeds
    std::optional<Statistics> ce;     // error relative to AlexNet's in percent; "mean": the mCE
    // 100 x error / error of the baseline's run from the same seed, averaged over the seeds that
    // both have. For "mean": the mean of the corruptions' ratios, as in the mCE.
    std::optional<double> to_baseline;
  };
  std::string name;
  std::vector<Cell> cells;  // one per variant
};
// Returns nothing if no run was evaluated on ImageNet-C.
std::vector<CorruptionRow> corruption_rows(const std::vector<VariantResult>& results,
                                           std::optional<std::size_t> baseline);
// Returns the tables of errors and of CE, each below a heading; empty if there are none.
std::string corruption_markdown(const SweepReport& report);
// Returns the CE of the variants by corruption beside the paper's. Without columns if neither is
// known, or if the images are too small for a CE.
TableText ce_table(const SweepReport& report);
inline constexpr const char* kCeTitle = "Corruption error CE (%), in parentheses the paper's";
// Name of frost with generated pictures, as dtn-eval prints it.
inline constexpr const char* kGeneratedFrost = "frost (stand-in)";
// Returns the sentence about generated pictures of frost; nothing if there are none.
std::vector<std::string> ce_notes(const SweepReport& report);

// Returns top-1 of the frozen features with a row for each variant and evaluation. Without columns
// if the sweep has no such evaluations.
TableText feature_table(const SweepReport& report);
std::string feature_title(const SweepConfig& sweep);
// Returns sentences that explain the evaluations.
std::vector<std::string> feature_notes(const SweepReport& report);
// Returns title, table and notes; empty if the sweep has no such evaluations.
std::string feature_markdown(const SweepReport& report);
// Returns the paper's top-1 of a variant at a point.
std::optional<double> paper_feature(const SweepConfig& sweep, std::size_t variant,
                                    const FeaturePoint& point);

// Returns the judge's results for the references and the samples of each variant. Without columns
// if the sweep judges no samples.
TableText sample_table(const SweepReport& report);
inline constexpr const char* kSampleTitle = "Samples";
// Returns sentences that explain the judge.
std::vector<std::string> sample_notes(const SweepReport& report);
// Returns title, table, notes and pictures; empty if the sweep judges no samples.
std::string sample_markdown(const SweepReport& report);
// Returns the result of any run with the i-th guidance scale, or null.
const SampleResult* any_sample_result(const SweepReport& report, std::size_t i);

// Draws the metric over the epochs, as SVG: for each variant a line for the mean over the seeds,
// and a band from the minimum to the maximum, up to the end of the first seed. The legend is sorted
// by result; DTN variants have thicker lines.
std::string curves_svg(const SweepReport& report);
// Draws the results, one row per variant: a dot for each seed and a line for the mean. The paper's
// figures, if any, are beside them with a separate scale.
std::string values_svg(const SweepReport& report);

// Removes this machine's absolute paths from a text: a path below `folder` becomes relative to it,
// and of any other path the last part remains.
std::string without_paths(const std::string& text, const std::string& folder);

// Returns for instance "top-1 (%)".
std::string figure_title(const FigureSchema& figure);
// Returns for instance "best top-1 (%)".
std::string metric_title(const SweepConfig& sweep);
// Returns the unit of throughput: "images/s", "sequences/s", or "samples/s" if the models have both
// kinds of input.
std::string rate_title(const SweepConfig& sweep);
// Formats a value of the metric with its significant digits.
std::string metric_text(const SweepConfig& sweep, double value);
// Returns for instance "80.50 ± 0.35", or "-" if there are no values.
std::string mean_text(const std::optional<Statistics>& s, int digits);
// The same of an evaluation after the training, for instance "80.50 ± 0.35 (2 of 3)" if only two of
// three runs have a result.
std::string mean_text_of(const std::optional<Statistics>& s, int digits, std::size_t runs);
// Formats a count with 4 digits and a unit: "22.05 M", "5.736 G"; "999" below a thousand.
std::string count_text(double count);
// Returns our value followed by the paper's in parentheses, if that is not empty.
std::string beside_paper(const std::string& ours, const std::string& paper);

// True if a variant is compared with the baseline by seed.
bool has_pairs(std::span<const VariantResult> results);
// Returns the result of any run on the suite, or null.
const RobustnessResult* any_result(const SweepReport& report, const std::string& suite);

}  // namespace dtn
