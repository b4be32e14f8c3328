// Results of a sweep's runs, and their statistics.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "apps/sweep/feature_runs.h"
#include "apps/sweep/robustness_runs.h"
#include "apps/sweep/sample_runs.h"
#include "apps/sweep/student_t.h"
#include "apps/sweep/sweep_plan.h"
#include "dtn/models/complexity.h"

namespace dtn {

// An evaluation.
struct CurvePoint {
  double epoch = 0;
  double metric = 0;                 // the sweep's metric
  double milestone = 0;              // value to compare with the milestones
  std::vector<double> figures = {};  // SweepConfig::paper_figures
  std::vector<double> columns = {};  // SweepConfig::columns; NaN where it is not logged
};

// A finished run.
struct RunResult {
  std::uint64_t seed = 0;
  double value = 0;  // the sweep's metric
  double images_per_second = 0;
  double wall_seconds = 0;
  std::vector<CurvePoint> curve;
  std::map<std::string, RobustnessResult> suites = {};  // by suite
  std::vector<double> figures = {};                     // SweepConfig::paper_figures
  std::vector<double> columns = {};  // of the last evaluation; see CurvePoint::columns
  // Top-1 at feature_points(), where it is known.
  std::vector<std::optional<double>> features = {};
  // By guidance, where it is known; empty if the sweep judges no samples.
  std::vector<std::optional<SampleResult>> samples = {};
};

struct Statistics {
  std::size_t n = 0;
  double mean = 0, min = 0, max = 0;
  std::optional<double> std;  // sample estimate, divides by n - 1; empty for n = 1
};
std::optional<Statistics> statistics_of(std::span<const double> values);

// Returns the epochs until a milestone is reached, by linear interpolation between the first
// evaluation that reached it and the previous one. Without a previous one, returns its epoch.
std::optional<double> epochs_to(double milestone, bool higher_is_better,
                                std::span<const CurvePoint> curve);

struct Milestone {
  double value = 0;
  std::size_t reached = 0;       // number of runs
  std::optional<double> epochs;  // mean over these runs
};

// Results of the samples of a variant with one guidance scale.
struct SampleStatistics {
  std::optional<Statistics> agreement, distance;
};

struct VariantResult {
  std::size_t variant = 0;
  std::vector<RunResult> runs;                // finished runs
  std::vector<std::uint64_t> open;            // seeds neither finished nor failed
  std::map<std::uint64_t, Failure> failures;  // by seed
  std::optional<Statistics> metric;           // empty until a run is finished
  std::optional<double> difference;           // mean - paper
  // mean - baseline mean, over the seeds that both have; over all seeds if they share none.
  std::optional<double> to_baseline;
  std::optional<double> paper_to_baseline;
  std::optional<PairedComparison> paired;  // with the baseline, by seed
  std::vector<Milestone> milestones;
  std::optional<double> images_per_second;   // mean
  std::map<std::string, Statistics> suites;  // of the runs' figures, by suite
  // SweepConfig::paper_figures; empty until a run is finished.
  std::vector<std::optional<Statistics>> figures;
  std::vector<std::optional<Statistics>> columns;   // SweepConfig::columns, likewise
  std::vector<std::optional<Statistics>> features;  // top-1 at feature_points()
  std::vector<SampleStatistics> samples;            // by guidance
  Complexity cost;                                  // of the model
};

// Returns the results in the order of the variants. `costs` has the same order. Leaves out results
// on suites in `roots` from another source, see robustness_result().
std::vector<VariantResult> collect_results(const SweepConfig& sweep,
                                           const std::vector<SweepRun>& runs,
                                           std::span<const Complexity> costs,
                                           const SuiteRoots& roots = {});

// Reads the evaluations that a run has logged in its metrics.jsonl.
std::vector<CurvePoint> read_curve(const SweepConfig& sweep, const std::filesystem::path& metrics);

}  // namespace dtn
