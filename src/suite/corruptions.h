// How errors under the corruptions of ImageNet-C are summed up (D. Hendrycks and
// T. Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations",
// ICLR 2019, section 4.2).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "data/corrupt/corruptions.h"

namespace dtn {

// AlexNet's top-1 error, the mean over the five severities, in [0, 1]. Zero outside the benchmark.
double alexnet_error(const Corruption& corruption);

// Top-1 errors in percent, by severity; nothing where there were no images.
using SeverityErrors = std::array<std::optional<double>, kSeverities>;

// Over the severities. Nothing unless all five are there: the mean of some says nothing about the
// others.
std::optional<double> mean_error(const SeverityErrors& errors);

// The corruption error CE in percent: the sum over severities of the model's error, divided by the
// sum of AlexNet's. With five severities each that is the ratio of the means.
std::optional<double> corruption_error(const Corruption& corruption, const SeverityErrors& errors);

// Over the corruptions of the benchmark that have all severities.
struct CorruptionSummary {
  std::size_t corruptions = 0;                // so many
  std::optional<double> mean_error, mean_ce;  // percent
  // The mCE of the paper is the mean over all 15, and nothing else.
  std::optional<double> mce() const {
    return corruptions == kBenchmarkCorruptions ? mean_ce : std::nullopt;
  }
};
// `errors` in the order of corruptions(); those outside the benchmark may be missing.
CorruptionSummary summarize(std::span<const SeverityErrors> errors);

}  // namespace dtn
