// Summary of the errors under the corruptions of ImageNet-C (D. Hendrycks and T. Dietterich,
// "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations", ICLR 2019,
// section 4.2).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "data/corrupt/corruptions.h"

namespace dtn {

// AlexNet's top-1 error, the mean over the five severities, in [0, 1]. Zero outside the benchmark.
double alexnet_error(const Corruption& corruption);

// Top-1 errors in percent, by severity; empty if there were no images.
using SeverityErrors = std::array<std::optional<double>, kSeverities>;

// Returns the mean over the severities, or nothing unless all five exist: the mean of some
// severities says nothing about the others.
std::optional<double> mean_error(const SeverityErrors& errors);

// Corruption error CE in percent: the sum over severities of the model's error, divided by the sum
// of AlexNet's. With five severities each, this is the ratio of the means.
std::optional<double> corruption_error(const Corruption& corruption, const SeverityErrors& errors);

// Means over the corruptions of the benchmark that have all severities.
struct CorruptionSummary {
  std::size_t corruptions = 0;                // number of these corruptions
  std::optional<double> mean_error, mean_ce;  // percent
  // The mCE of the paper is defined only as the mean over all 15 corruptions.
  std::optional<double> mce() const {
    return corruptions == kBenchmarkCorruptions ? mean_ce : std::nullopt;
  }
};
// `errors` has the order of corruptions(); corruptions outside the benchmark may be missing.
CorruptionSummary summarize(std::span<const SeverityErrors> errors);

}  // namespace dtn
