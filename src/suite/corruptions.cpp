#include "suite/corruptions.h"

#include <algorithm>

namespace dtn {
namespace {

constexpr Corruption kCorruptions[] = {
    {"gaussian_noise", "noise", 0.886428},
    {"shot_noise", "noise", 0.894468},
    {"impulse_noise", "noise", 0.922640},
    {"defocus_blur", "blur", 0.819880},
    {"glass_blur", "blur", 0.826268},
    {"motion_blur", "blur", 0.785948},
    {"zoom_blur", "blur", 0.798360},
    {"snow", "weather", 0.866816},
    {"frost", "weather", 0.826572},
    {"fog", "weather", 0.819324},
    {"brightness", "weather", 0.564592},
    {"contrast", "digital", 0.853204},
    {"elastic_transform", "digital", 0.646056},
    {"pixelate", "digital", 0.717840},
    {"jpeg_compression", "digital", 0.606500},
    {"speckle_noise", "extra", 0},
    {"gaussian_blur", "extra", 0},
    {"spatter", "extra", 0},
    {"saturate", "extra", 0},
};

}  // namespace

std::span<const Corruption> corruptions() { return kCorruptions; }

const Corruption* find_corruption(std::string_view name) {
  const Corruption* found = std::ranges::find(kCorruptions, name, &Corruption::name);
  return found == std::end(kCorruptions) ? nullptr : found;
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
  if (!mean || corruption.alexnet_error == 0) return std::nullopt;
  return *mean / corruption.alexnet_error;
}

CorruptionSummary summarize(std::span<const SeverityErrors> errors) {
  CorruptionSummary summary;
  double error = 0, ce = 0;
  for (std::size_t i = 0; i < std::min(errors.size(), kBenchmarkCorruptions); ++i) {
    const std::optional<double> mean = mean_error(errors[i]);
    if (!mean) continue;
    error += *mean;
    ce += *corruption_error(kCorruptions[i], errors[i]);
    ++summary.corruptions;
  }
  if (summary.corruptions == 0) return summary;
  summary.mean_error = error / static_cast<double>(summary.corruptions);
  summary.mean_ce = ce / static_cast<double>(summary.corruptions);
  return summary;
}

}  // namespace dtn
