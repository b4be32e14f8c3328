// Figures of samples with any number of classes each, in double precision. They need no model.
//
// A sample has K logits z and K labels of 0 or 1. The probability of a class is 1 / (1 + exp(-z)).
// A class is predicted if its probability is at least the threshold. With the number of its hits,
// of its samples and of the samples for which it is predicted,
//
//   precision = hits / predicted
//   recall = hits / samples
//   F1 = 2 hits / (predicted + samples)
//
// Micro F1 is F1 of the sums over all classes, macro F1 the mean of F1 over all classes. A quotient
// with a denominator of 0 is 0.
//
// The average precision of a class is that of scikit-learn: with the samples by falling logit, the
// sum over the different logits of (R_n - R_(n-1)) P_n, where P_n and R_n are precision and recall
// of the samples with the n largest logits. mAP is the mean over the classes with a sample.
//
// The loss is binary cross-entropy, the mean over samples and classes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dtn {

// The samples, and the answers of a model.
struct LabelledLogits {
  std::int64_t samples = 0, classes = 0;
  std::span<const float> logits;         // [samples, classes]
  std::span<const std::uint8_t> labels;  // [samples, classes], 0 or 1
};

struct LabelFigures {
  std::int64_t support = 0;    // samples that have the class
  std::int64_t predicted = 0;  // samples for which it is predicted
  std::int64_t hits = 0;
  double precision = 0, recall = 0, f1 = 0;
  std::optional<double> ap;  // unset: no sample has the class
};

// Fractions from 0 to 1. All but the counts are NaN if a logit is not finite.
struct MultilabelFigures {
  std::int64_t count = 0;
  double map = 0;
  double f1_micro = 0, f1_macro = 0;
  double threshold = 0;
  double loss = 0;
  std::vector<LabelFigures> classes;  // [K]
};

// Measures at `threshold`, in (0, 1].
MultilabelFigures label_figures(const LabelledLogits& samples, double threshold);

// Returns the threshold with the largest micro F1; the largest of equally good ones. It lies in the
// middle between the smallest probability that it accepts and the next one below, or 0. Returns
// nothing if no sample has a class, or a logit is not finite.
std::optional<double> best_threshold(const LabelledLogits& samples);

// Returns the probability of a logit.
double probability_of(float logit);

// Returns the average precision of a class with labels of 0 or 1, at least one of them 1.
double average_precision(std::span<const float> scores, std::span<const std::uint8_t> labels);

// A point of the curve of precision over recall.
struct PrecisionAtRecall {
  double recall = 0, precision = 0;
  float score = 0;  // the smallest that is accepted
};

// Returns the points for the different scores, the largest score first. `labels` as above.
std::vector<PrecisionAtRecall> precision_curve(std::span<const float> scores,
                                               std::span<const std::uint8_t> labels);

}  // namespace dtn
