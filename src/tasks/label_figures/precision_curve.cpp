#include <algorithm>
#include <numeric>

#include "dtn/core/check.h"
#include "tasks/label_figures/label_figures.h"

namespace dtn {

std::vector<PrecisionAtRecall> precision_curve(std::span<const float> scores,
                                               std::span<const std::uint8_t> labels) {
  DTN_CHECK(scores.size() == labels.size(), scores.size(), " scores for ", labels.size(),
            " labels");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  const auto positives = static_cast<double>(std::ranges::count(labels, std::uint8_t{1}));
  DTN_CHECK(positives > 0, "no sample has the class");
  std::vector<PrecisionAtRecall> points;
  std::int64_t hits = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    hits += labels[order[n]];
    const float score = scores[order[n]];
    if (n + 1 < order.size() && scores[order[n + 1]] == score) continue;
    const auto found = static_cast<double>(hits);
    points.push_back({found / positives, found / static_cast<double>(n + 1), score});
  }
  return points;
}

double average_precision(std::span<const float> scores, std::span<const std::uint8_t> labels) {
  double sum = 0, recall = 0;
  for (const PrecisionAtRecall& point : precision_curve(scores, labels)) {
    sum += (point.recall - recall) * point.precision;
    recall = point.recall;
  }
  return sum;
}

}  // namespace dtn
