#include <algorithm>
#include <cmath>
#include <tuple>

#include "apps/report/label_report.h"

namespace dtn {

std::vector<LabelDecision> decisions_of(const LabelReport& report, std::size_t row) {
  const std::size_t classes = report.classes.size();
  std::vector<LabelDecision> decisions(classes);
  for (std::size_t k = 0; k < classes; ++k) {
    const double z = report.logits[row * classes + k];
    LabelDecision& decision = decisions[k];
    decision.label = static_cast<std::int64_t>(k);
    decision.truth = report.labels[row * classes + k] == 1;
    decision.probability = probability_of(report.logits[row * classes + k]);
    decision.predicted = decision.probability >= report.figures.threshold;
    decision.loss = std::max(decision.truth ? -z : z, 0.0) + std::log1p(std::exp(-std::abs(z)));
  }
  return decisions;
}

std::vector<WrongSample> worst_samples(const LabelReport& report) {
  std::vector<WrongSample> wrong;
  for (std::size_t row = 0; row < report.indices.size(); ++row) {
    WrongSample sample{.index = report.indices[row], .row = row};
    bool any = false;
    for (const LabelDecision& decision : decisions_of(report, row)) {
      if (!decision.is_wrong() || (any && decision.loss <= sample.worst.loss)) continue;
      sample.worst = decision;
      any = true;
    }
    if (any) wrong.push_back(sample);
  }
  std::ranges::sort(wrong, {},
                    [](const WrongSample& s) { return std::tuple(-s.worst.loss, s.index); });
  return wrong;
}

std::vector<PrecisionAtRecall> curve_of(const LabelReport& report, std::int64_t label,
                                        std::size_t points) {
  const std::size_t classes = report.classes.size(), k = static_cast<std::size_t>(label);
  if (report.figures.classes[k].support == 0) return {};
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;
  for (std::size_t row = 0; row < report.indices.size(); ++row) {
    scores.push_back(report.logits[row * classes + k]);
    labels.push_back(report.labels[row * classes + k]);
  }
  const std::vector<PrecisionAtRecall> all = precision_curve(scores, labels);
  const std::size_t step = std::max<std::size_t>(1, all.size() / points);
  std::vector<PrecisionAtRecall> some;
  for (std::size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  if ((all.size() - 1) % step != 0) some.push_back(all.back());
  return some;
}

std::vector<ThresholdFigures> over_thresholds(const LabelReport& report) {
  constexpr int kSteps = 100;
  // Numbers of decisions with a probability of at least i / kSteps.
  std::vector<std::int64_t> predicted(kSteps + 1), hits(kSteps + 1);
  std::int64_t positives = 0;
  for (std::size_t i = 0; i < report.logits.size(); ++i) {
    const auto bin = static_cast<std::size_t>(probability_of(report.logits[i]) * kSteps);
    ++predicted[bin];
    hits[bin] += report.labels[i];
    positives += report.labels[i];
  }
  for (std::size_t bin = kSteps; bin-- > 0;) {
    predicted[bin] += predicted[bin + 1];
    hits[bin] += hits[bin + 1];
  }
  const auto quotient = [](std::int64_t a, std::int64_t b) {
    return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
  };
  std::vector<ThresholdFigures> figures;
  for (std::size_t bin = 1; bin < kSteps; ++bin) {
    figures.push_back({static_cast<double>(bin) / kSteps, quotient(hits[bin], predicted[bin]),
                       quotient(hits[bin], positives),
                       quotient(2 * hits[bin], predicted[bin] + positives)});
  }
  return figures;
}

}  // namespace dtn
