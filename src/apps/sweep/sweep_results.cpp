#include "apps/sweep/sweep_results.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "apps/common/json_files.h"
#include "dtn/core/check.h"
#include "dtn/models/complexity.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

// Returns the run's value of a figure: of the last evaluation, or the best of all.
template <class ValueOf>
double value_of(const std::vector<CurvePoint>& curve, const FigureSchema& figure, bool best_of_all,
                ValueOf value) {
  if (!best_of_all) return value(curve.back());
  double best = std::numeric_limits<double>::quiet_NaN();
  for (const CurvePoint& point : curve) {
    const double here = value(point);
    if (std::isnan(here)) continue;
    const bool better = figure.higher_is_better ? here > best : here < best;
    if (std::isnan(best) || better) best = here;
  }
  return best;
}

RunResult read_result(const SweepConfig& sweep, const SweepRun& run, const SuiteRoots& roots) {
  RunResult result;
  result.seed = run.seed;
  const fs::path metrics = run.folder / "metrics.jsonl";
  result.curve = read_curve(sweep, metrics);
  if (result.curve.empty()) {
    throw DataError(cat(metrics.string(), ": the run is finished but has no evaluation; delete ",
                        run.folder.string(), " to run it again"));
  }
  const bool best = sweep.metric.best_of_all;
  result.value = value_of(result.curve, sweep.metric.figure, best,
                          [](const CurvePoint& point) { return point.metric; });
  for (std::size_t i = 0; i < sweep.paper_figures.size(); ++i) {
    result.figures.push_back(value_of(result.curve, sweep.paper_figures[i], best,
                                      [i](const CurvePoint& point) { return point.figures[i]; }));
  }
  result.columns = result.curve.back().columns;
  const auto summary = json_of_file(run.folder / "summary.json");
  result.images_per_second = number_at(summary, "images_per_second");
  result.wall_seconds = number_at(summary, "wall_seconds");
  for (const std::string& suite : sweep.suites) {
    auto found = robustness_result(sweep, run, suite, roots);
    if (found) result.suites[suite] = std::move(*found);
  }
  for (const FeaturePoint& point : feature_points(sweep.features)) {
    result.features.push_back(feature_result(sweep, run, point));
  }
  for (std::size_t i = 0; sweep.samples.judge && i < sweep.samples.guidance.size(); ++i) {
    result.samples.push_back(sample_result(sweep, run, i));
  }
  return result;
}

Milestone milestone_of(const SweepConfig& sweep, double value, const std::vector<RunResult>& runs) {
  Milestone milestone{value, 0, std::nullopt};
  std::vector<double> epochs;
  for (const RunResult& run : runs) {
    if (auto e = epochs_to(value, sweep.milestone_figure.higher_is_better, run.curve)) {
      epochs.push_back(*e);
    }
  }
  milestone.reached = epochs.size();
  if (auto s = statistics_of(epochs)) milestone.epochs = s->mean;
  return milestone;
}

// Statistics of the i-th figure, or column, over the runs that have it.
std::optional<Statistics> statistics_of_figure(const std::vector<RunResult>& runs,
                                               std::vector<double> RunResult::*figures,
                                               std::size_t i) {
  std::vector<double> values;
  for (const RunResult& run : runs) {
    const double value = (run.*figures)[i];
    if (std::isfinite(value)) values.push_back(value);
  }
  return statistics_of(values);
}

// Statistics of the i-th of feature_points() over the runs that were evaluated there.
std::optional<Statistics> statistics_of_feature(const std::vector<RunResult>& runs, std::size_t i) {
  std::vector<double> values;
  for (const RunResult& run : runs) {
    if (run.features[i]) values.push_back(*run.features[i]);
  }
  return statistics_of(values);
}

// Statistics of the samples with the i-th guidance scale over the runs whose samples were judged.
SampleStatistics statistics_of_samples(const std::vector<RunResult>& runs, std::size_t i) {
  std::vector<double> agreement, distance;
  for (const RunResult& run : runs) {
    if (!run.samples[i]) continue;
    agreement.push_back(run.samples[i]->samples.agreement);
    distance.push_back(run.samples[i]->samples.distance);
  }
  return {statistics_of(agreement), statistics_of(distance)};
}

void summarize(const SweepConfig& sweep, VariantResult& result, const Complexity& cost) {
  std::vector<double> values, rates;
  for (const RunResult& run : result.runs) {
    values.push_back(run.value);
    if (run.images_per_second > 0) rates.push_back(run.images_per_second);
  }
  const SweepVariant& variant = sweep.variants[result.variant];
  result.metric = statistics_of(values);
  if (result.metric && variant.paper) result.difference = result.metric->mean - *variant.paper;
  for (double value : sweep.milestones) {
    result.milestones.push_back(milestone_of(sweep, value, result.runs));
  }
  if (auto s = statistics_of(rates)) result.images_per_second = s->mean;
  for (const std::string& suite : sweep.suites) {
    std::vector<double> figures;
    for (const RunResult& run : result.runs) {
      if (const auto at = run.suites.find(suite); at != run.suites.end())
        figures.push_back(at->second.figure);
    }
    if (auto s = statistics_of(figures)) result.suites[suite] = *s;
  }
  for (std::size_t i = 0; i < sweep.paper_figures.size(); ++i) {
    result.figures.push_back(statistics_of_figure(result.runs, &RunResult::figures, i));
  }
  for (std::size_t i = 0; i < sweep.columns.size(); ++i) {
    result.columns.push_back(statistics_of_figure(result.runs, &RunResult::columns, i));
  }
  const std::size_t points = feature_points(sweep.features).size();
  for (std::size_t i = 0; i < points; ++i) {
    result.features.push_back(statistics_of_feature(result.runs, i));
  }
  for (std::size_t i = 0; sweep.samples.judge && i < sweep.samples.guidance.size(); ++i) {
    result.samples.push_back(statistics_of_samples(result.runs, i));
  }
  result.cost = cost;
}

// Differences between runs with equal seeds, in which the common effect of the seed cancels.
std::vector<double> paired_differences(const VariantResult& result, const VariantResult& base) {
  std::vector<double> differences;
  for (const RunResult& run : result.runs) {
    const auto other = std::ranges::find(base.runs, run.seed, &RunResult::seed);
    if (other != base.runs.end()) differences.push_back(run.value - other->value);
  }
  return differences;
}

void compare_with_baseline(const SweepConfig& sweep, std::vector<VariantResult>& results) {
  if (!sweep.baseline) return;
  const VariantResult& base = results[*sweep.baseline];
  const auto& base_paper = sweep.variants[*sweep.baseline].paper;
  for (VariantResult& result : results) {
    if (&result == &base) continue;
    const auto& paper = sweep.variants[result.variant].paper;
    const std::vector<double> differences = paired_differences(result, base);
    if (const auto by_seed = statistics_of(differences)) {
      result.to_baseline = by_seed->mean;
    } else if (result.metric && base.metric) {
      result.to_baseline = result.metric->mean - base.metric->mean;
    }
    result.paired = compare_pairs(differences);
    if (paper && base_paper) result.paper_to_baseline = *paper - *base_paper;
  }
}

}  // namespace

std::optional<Statistics> statistics_of(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  Statistics s;
  s.n = values.size();
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(s.n);
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  s.min = *min;
  s.max = *max;
  if (s.n > 1) {
    double squares = 0;
    for (double v : values) squares += (v - s.mean) * (v - s.mean);
    s.std = std::sqrt(squares / static_cast<double>(s.n - 1));
  }
  return s;
}

std::optional<double> epochs_to(double milestone, bool higher_is_better,
                                std::span<const CurvePoint> curve) {
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double value = curve[i].milestone;
    if (!(higher_is_better ? value >= milestone : value <= milestone)) continue;
    if (i == 0) return curve[i].epoch;
    const CurvePoint &before = curve[i - 1], &after = curve[i];
    if (!std::isfinite(before.milestone)) return after.epoch;  // nothing to interpolate from
    double part = (milestone - before.milestone) / (after.milestone - before.milestone);
    return before.epoch + part * (after.epoch - before.epoch);
  }
  return std::nullopt;
}

std::vector<CurvePoint> read_curve(const SweepConfig& sweep, const fs::path& metrics) {
  const std::string split = sweep.ema ? "val_ema" : "val";
  std::vector<CurvePoint> curve;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"split\"") == std::string::npos) continue;
    auto object = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!object.is_object() || object["split"] != split) continue;
    CurvePoint& point = curve.emplace_back();
    point.epoch = number_at(object, "epoch");
    point.metric = number_at(object, sweep.metric.figure.name);
    point.milestone = number_at(object, sweep.milestone_figure.name);
    for (const FigureSchema& figure : sweep.paper_figures) {
      point.figures.push_back(number_at(object, figure.name));
    }
    for (const SweepColumn& column : sweep.columns) {
      point.columns.push_back(number_at(object, column.name));
    }
  }
  return curve;
}

std::vector<VariantResult> collect_results(const SweepConfig& sweep,
                                           const std::vector<SweepRun>& runs,
                                           std::span<const Complexity> costs,
                                           const SuiteRoots& roots) {
  std::vector<VariantResult> results(sweep.variants.size());
  for (std::size_t i = 0; i < results.size(); ++i) results[i].variant = i;
  for (const SweepRun& run : runs) {
    VariantResult& result = results[run.variant];
    if (run.state == RunState::kFinished) {
      result.runs.push_back(read_result(sweep, run, roots));
    } else if (run.state == RunState::kFailed) {
      result.failures[run.seed] = *run.failure;
    } else {
      result.open.push_back(run.seed);
    }
  }
  for (VariantResult& result : results) summarize(sweep, result, costs[result.variant]);
  compare_with_baseline(sweep, results);
  return results;
}

}  // namespace dtn
