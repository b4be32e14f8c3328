#include "tasks/label_figures/label_figures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace dtn {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double quotient(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

void set_quotients(LabelFigures& of) {
  of.precision = quotient(of.hits, of.predicted);
  of.recall = quotient(of.hits, of.support);
  of.f1 = quotient(2 * of.hits, of.predicted + of.support);
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

double mean_loss(const LabelledLogits& samples) {
  double sum = 0;
  for (std::size_t i = 0; i < samples.logits.size(); ++i) {
    const double z = samples.logits[i], against = samples.labels[i] == 1 ? -z : z;
    sum += std::max(against, 0.0) + std::log1p(std::exp(-std::abs(z)));
  }
  return samples.logits.empty() ? 0 : sum / static_cast<double>(samples.logits.size());
}

// Sets the average precision of the classes that have samples, and returns the mean.
double measure_precision(const LabelledLogits& samples, std::vector<LabelFigures>& classes) {
  const auto count = static_cast<std::size_t>(samples.samples);
  std::vector<float> scores(count);
  std::vector<std::uint8_t> labels(count);
  double sum = 0, measured = 0;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].support == 0) continue;
    for (std::size_t i = 0; i < count; ++i) {
      scores[i] = samples.logits[i * classes.size() + k];
      labels[i] = samples.labels[i * classes.size() + k];
    }
    sum += *(classes[k].ap = average_precision(scores, labels));
    ++measured;
  }
  return measured > 0 ? sum / measured : 0;
}

void make_unknown(MultilabelFigures& figures) {
  figures.map = figures.f1_micro = figures.f1_macro = figures.loss = kNan;
  for (LabelFigures& of : figures.classes) {
    of.precision = of.recall = of.f1 = kNan;
    of.ap.reset();
  }
}

}  // namespace

double probability_of(float logit) { return 1 / (1 + std::exp(-static_cast<double>(logit))); }

MultilabelFigures label_figures(const LabelledLogits& samples, double threshold) {
  MultilabelFigures figures{.count = samples.samples, .threshold = threshold};
  const auto classes = static_cast<std::size_t>(samples.classes);
  figures.classes.resize(classes);
  LabelFigures all;
  for (std::size_t i = 0; i < samples.logits.size(); ++i) {
    LabelFigures& of = figures.classes[i % classes];
    const bool has = samples.labels[i] == 1;
    const bool predicted = probability_of(samples.logits[i]) >= threshold;
    of.support += has, of.predicted += predicted, of.hits += has && predicted;
    all.support += has, all.predicted += predicted, all.hits += has && predicted;
  }
  if (!all_finite(samples.logits)) {
    make_unknown(figures);
    return figures;
  }
  for (LabelFigures& of : figures.classes) {
    set_quotients(of);
    figures.f1_macro += of.f1 / static_cast<double>(classes);
  }
  set_quotients(all);
  figures.f1_micro = all.f1;
  figures.map = measure_precision(samples, figures.classes);
  figures.loss = mean_loss(samples);
  return figures;
}

std::optional<double> best_threshold(const LabelledLogits& samples) {
  if (!all_finite(samples.logits)) return std::nullopt;
  std::vector<std::pair<double, std::uint8_t>> decisions;
  decisions.reserve(samples.logits.size());
  for (std::size_t i = 0; i < samples.logits.size(); ++i) {
    decisions.emplace_back(probability_of(samples.logits[i]), samples.labels[i]);
  }
  std::ranges::sort(decisions, std::greater());
  std::int64_t positives = 0, hits = 0;
  for (const auto& [unused, label] : decisions) positives += label;
  std::optional<double> best;
  double best_f1 = 0;
  for (std::size_t n = 0; n < decisions.size(); ++n) {
    hits += decisions[n].second;
    const double accepted = decisions[n].first;
    const double next = n + 1 < decisions.size() ? decisions[n + 1].first : 0;
    if (next == accepted) continue;  // for equal probabilities, and for 0
    const double f1 = quotient(2 * hits, static_cast<std::int64_t>(n + 1) + positives);
    if (f1 <= best_f1) continue;
    const double middle = next + (accepted - next) / 2;
    best = middle > next ? middle : accepted;
    best_f1 = f1;
  }
  return best;
}

}  // namespace dtn
