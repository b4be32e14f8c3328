// What the runs of a sweep say, and what that amounts to.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "dtn/models/complexity.h"
#include "sweep/student_t.h"
#include "sweep/suite_runs.h"
#include "sweep/sweep_plan.h"

namespace dtn {

// An evaluation.
struct CurvePoint {
  double epoch = 0;
  double metric = 0;     // of the sweep
  double milestone = 0;  // the figure that milestones are values of
};

// A finished run.
struct RunResult {
  std::uint64_t seed = 0;
  double value = 0;  // of the sweep's metric
  double images_per_second = 0;
  double wall_seconds = 0;
  std::int64_t steps = 0;
  std::vector<CurvePoint> curve;
  std::map<std::string, SuiteResult> suites = {};  // those it was evaluated on
};

struct Statistics {
  std::size_t n = 0;
  double mean = 0, min = 0, max = 0;
  std::optional<double> std;  // of a sample: divides by n - 1; nothing for n = 1
};
std::optional<Statistics> statistics_of(std::span<const double> values);

// Epochs until a milestone was reached: where the straight line between the first evaluation that
// reached it and the one before crosses it. The first evaluation of all counts as it is.
std::optional<double> epochs_to(double milestone, bool higher_is_better,
                                std::span<const CurvePoint> curve);

struct Milestone {
  double value = 0;
  std::size_t reached = 0;       // runs that did
  std::optional<double> epochs;  // their mean
};

struct VariantResult {
  std::size_t variant = 0;
  std::vector<RunResult> runs;                // finished ones
  std::vector<std::uint64_t> open;            // seeds neither finished nor failed
  std::map<std::uint64_t, Failure> failures;  // by seed
  std::optional<Statistics> metric;           // nothing before a run is finished
  std::optional<double> difference;           // mean - paper
  // Mean - the baseline's, over the seeds that both have if there are any.
  std::optional<double> to_baseline;
  std::optional<double> paper_to_baseline;
  std::optional<PairedComparison> paired;  // with the baseline, by seed
  std::vector<Milestone> milestones;
  std::optional<double> images_per_second;   // mean
  std::map<std::string, Statistics> suites;  // of their figures
  std::int64_t parameters = 0;
};

// In the order of the variants, as `costs` are.
std::vector<VariantResult> collect_results(const SweepConfig& sweep,
                                           const std::vector<SweepRun>& runs,
                                           std::span<const Complexity> costs);

// The evaluations that a run has logged, in its file metrics.jsonl.
std::vector<CurvePoint> read_curve(const SweepConfig& sweep, const std::filesystem::path& metrics);

}  // namespace dtn
