#include "apps/robustness/corruption_error.h"

#include <algorithm>

namespace dtn {

double alexnet_error(const Corruption& corruption) {
  // In the order of corruptions().
  constexpr double kErrors[kBenchmarkCorruptions] = {.886428, .894468, .922640, .819880, .826268,
                                                     .785948, .798360, .866816, .826572, .819324,
                                                     .564592, .853204, .646056, .717840, .606500};
  return in_benchmark(corruption) ? kErrors[&corruption - corruptions().data()] : 0;
}

std::optional<double> mean_error(const SeverityErrors& errors) {
  double sum = 0;
  for (const std::optional<double>& error : errors) {
    if (!error) return std::nullopt;
    sum += *error;
  }
  return sum / static_cast<double>(kSeverities);
}

std::optional<double> corruption_error(const Corruption& corruption, const SeverityErrors& errors) {
  const std::optional<double> mean = mean_error(errors);
  if (!mean || !in_benchmark(corruption)) return std::nullopt;
  return *mean / alexnet_error(corruption);
}

CorruptionSummary summarize(std::span<const SeverityErrors> errors) {
  CorruptionSummary summary;
  double error = 0, ce = 0;
  for (std::size_t i = 0; i < std::min(errors.size(), kBenchmarkCorruptions); ++i) {
    const std::optional<double> mean = mean_error(errors[i]);
    if (!mean) continue;
    error += *mean;
    ce += *corruption_error(corruptions()[i], errors[i]);
    ++summary.corruptions;
  }
  if (summary.corruptions == 0) return summary;
  summary.mean_error = error / static_cast<double>(summary.corruptions);
  summary.mean_ce = ce / static_cast<double>(summary.corruptions);
  return summary;
}

}  // namespace dtn
