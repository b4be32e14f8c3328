#include "tasks/class_figures/class_figures.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "dtn/core/check.h"

namespace dtn {
namespace {

double quotient(double numerator, std::int64_t denominator) {
  return denominator > 0 ? numerator / static_cast<double>(denominator) : 0;
}

double edge(std::size_t i) { return static_cast<double>(i) / double{kCalibrationBins}; }

// Returns the bin of a confidence. Compares with the edges, since a product may round across one.
std::size_t bin_of(double confidence) {
  std::size_t bin = 0;
  while (bin + 1 < kCalibrationBins && confidence > edge(bin + 1)) ++bin;
  return bin;
}

std::vector<CalibrationBin> bins_of(std::span<const ClassifiedSample> samples) {
  std::vector<CalibrationBin> bins(kCalibrationBins);
  for (std::size_t i = 0; i < bins.size(); ++i) bins[i] = {edge(i), edge(i + 1)};
  for (const ClassifiedSample& sample : samples) {
    CalibrationBin& bin = bins[bin_of(sample.probability)];
    ++bin.count;
    bin.confidence += sample.probability;
    bin.accuracy += sample.is_wrong() ? 0 : 1;
  }
  for (CalibrationBin& bin : bins) {
    bin.confidence = quotient(bin.confidence, bin.count);
    bin.accuracy = quotient(bin.accuracy, bin.count);
  }
  return bins;
}

std::vector<Confusion> count_confusions(std::span<const ClassifiedSample> samples) {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  pairs.reserve(samples.size());
  for (const ClassifiedSample& s : samples) pairs.emplace_back(s.truth, s.prediction);
  std::ranges::sort(pairs);
  std::vector<Confusion> entries;
  for (const auto& [truth, prediction] : pairs) {
    const bool same = !entries.empty() && entries.back().truth == truth &&
                      entries.back().prediction == prediction;
    if (!same) entries.push_back({truth, prediction, 0});
    ++entries.back().count;
  }
  return entries;
}

void add_classes(ClassificationFigures& figures) {
  for (const Confusion& entry : figures.confusions) {
    ClassFigures& truth = figures.classes[static_cast<std::size_t>(entry.truth)];
    truth.support += entry.count;
    figures.classes[static_cast<std::size_t>(entry.prediction)].predicted += entry.count;
    if (entry.truth == entry.prediction) truth.hits += entry.count;
  }
  double sum = 0;
  std::int64_t present = 0;
  for (ClassFigures& c : figures.classes) {
    const auto hits = static_cast<double>(c.hits);
    c.precision = quotient(hits, c.predicted);
    c.recall = quotient(hits, c.support);
    c.f1 = quotient(2 * hits, c.predicted + c.support);
    sum += c.f1;
    present += c.occurs();
  }
  figures.macro_f1 = quotient(sum, static_cast<std::int64_t>(figures.classes.size()));
  figures.macro_f1_present = quotient(sum, present);
}

}  // namespace

std::optional<ClassifiedSample> classified(std::int64_t index, std::span<const float> logits,
                                           std::int64_t truth) {
  DTN_CHECK(truth >= 0 && truth < std::ssize(logits), "label ", truth, " of ", logits.size(),
            " classes");
  if (!std::ranges::all_of(logits, [](float v) { return std::isfinite(v); })) return std::nullopt;
  const auto largest = std::ranges::max_element(logits);  // the first of equal ones
  const double most = *largest, own = logits[static_cast<std::size_t>(truth)];
  double sum = 0;
  std::int32_t rank = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    const double value = logits[k];
    sum += std::exp(value - most);
    rank += value > own || (value == own && static_cast<std::int64_t>(k) < truth);
  }
  return ClassifiedSample{.index = index,
                          .truth = static_cast<std::int32_t>(truth),
                          .prediction = static_cast<std::int32_t>(largest - logits.begin()),
                          .rank = rank,
                          .probability = 1 / sum,
                          .loss = std::log(sum) + (most - own)};
}

std::span<const Confusion> ClassificationFigures::confusions_of(std::int64_t truth) const {
  const auto begin = std::ranges::lower_bound(confusions, truth, {}, &Confusion::truth);
  return {begin, std::ranges::upper_bound(confusions, truth, {}, &Confusion::truth)};
}

std::vector<std::int64_t> ClassificationFigures::confusion_row(std::int64_t truth) const {
  std::vector<std::int64_t> row(classes.size(), 0);
  for (const Confusion& entry : confusions_of(truth)) {
    row[static_cast<std::size_t>(entry.prediction)] = entry.count;
  }
  return row;
}

ClassificationFigures figures_of(std::span<const ClassifiedSample> samples, std::int64_t classes) {
  ClassificationFigures figures;
  figures.count = std::ssize(samples);
  figures.classes.resize(static_cast<std::size_t>(classes));
  figures.top_k.resize(static_cast<std::size_t>(std::min(classes, kMaxTopK)), 0.0);
  for (const ClassifiedSample& sample : samples) {
    figures.loss += sample.loss;
    figures.confidence += sample.probability;
    for (std::size_t k = static_cast<std::size_t>(sample.rank); k < figures.top_k.size(); ++k) {
      ++figures.top_k[k];
    }
  }
  for (double& share : figures.top_k) share = quotient(share, figures.count);
  figures.top1 = figures.top_k.empty() ? 0 : figures.top_k.front();
  figures.loss = quotient(figures.loss, figures.count);
  figures.confidence = quotient(figures.confidence, figures.count);
  figures.reliability = bins_of(samples);
  for (const CalibrationBin& bin : figures.reliability) {
    figures.ece += quotient(
        static_cast<double>(bin.count) * std::abs(bin.accuracy - bin.confidence), figures.count);
  }
  figures.confusions = count_confusions(samples);
  add_classes(figures);
  return figures;
}

std::vector<Confusion> confused_pairs(const ClassificationFigures& figures) {
  std::vector<Confusion> pairs;
  for (const Confusion& entry : figures.confusions) {
    if (entry.truth != entry.prediction) pairs.push_back(entry);
  }
  // For equal counts, the share falls as the support grows.
  std::ranges::stable_sort(pairs, {}, [&](const Confusion& entry) {
    return std::tuple(-entry.count, figures.classes[static_cast<std::size_t>(entry.truth)].support);
  });
  return pairs;
}

std::vector<ClassifiedSample> worst_first(std::span<const ClassifiedSample> samples) {
  std::vector<ClassifiedSample> wrong;
  std::ranges::copy_if(samples, std::back_inserter(wrong), &ClassifiedSample::is_wrong);
  std::ranges::sort(wrong, {},
                    [](const ClassifiedSample& s) { return std::pair(-s.loss, s.index); });
  return wrong;
}

}  // namespace dtn
