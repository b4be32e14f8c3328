// Figures of a classification of labelled samples, in double precision. They need no model.
//
// The prediction of a sample is the class of its largest logit, the first of equal ones. For a
// class, with the number of its hits, of its samples and of the samples predicted as it,
//
//   precision = hits / predicted
//   recall = hits / samples
//   F1 = 2 hits / (predicted + samples)
//
// The confidence of a sample is the largest probability of the softmax. Bin i of 15 holds the
// confidences in (i / 15, (i + 1) / 15]. The expected calibration error over n samples is
//
//   ECE = sum over the bins of count / n |accuracy - mean confidence|
//
// A quotient with a denominator of 0 is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dtn {

inline constexpr std::size_t kCalibrationBins = 15;
inline constexpr std::int64_t kMaxTopK = 10;

// A sample, and the answer of a model.
struct ClassifiedSample {
  std::int64_t index = 0;  // in the data set
  std::int32_t truth = 0, prediction = 0;
  // Number of classes that score above the truth. Equal scores are ordered by class.
  std::int32_t rank = 0;
  double probability = 0;  // of the prediction
  double loss = 0;         // -log of the probability of the truth

  bool is_wrong() const { return prediction != truth; }
};

// Returns nothing if a logit is not finite. Throws Error if `truth` is not a class.
std::optional<ClassifiedSample> classified(std::int64_t index, std::span<const float> logits,
                                           std::int64_t truth);

struct ClassFigures {
  std::int64_t support = 0;    // samples of the class
  std::int64_t predicted = 0;  // samples predicted as it
  std::int64_t hits = 0;
  double precision = 0, recall = 0, f1 = 0;

  // False if the class is neither a truth nor a prediction.
  bool occurs() const { return support > 0 || predicted > 0; }
};

struct CalibrationBin {
  double from = 0, to = 0;  // `to` is included
  std::int64_t count = 0;
  double confidence = 0, accuracy = 0;  // means over the samples
};

// An entry of the confusion matrix.
struct Confusion {
  std::int64_t truth = 0, prediction = 0, count = 0;
};

// Fractions from 0 to 1.
struct ClassificationFigures {
  std::int64_t count = 0;
  double top1 = 0;
  double loss = 0;              // mean over the samples
  double macro_f1 = 0;          // mean over all classes
  double macro_f1_present = 0;  // mean over the classes that occur
  double ece = 0;
  double confidence = 0;      // mean over the samples
  std::vector<double> top_k;  // of k = 1 .. min(K, kMaxTopK)
  std::vector<CalibrationBin> reliability;
  std::vector<ClassFigures> classes;  // [K]
  // Entries of the confusion matrix [K, K] that are not 0, by truth, then prediction. Memory grows
  // with the number of samples, not with K^2.
  std::vector<Confusion> confusions;

  // Returns the entries of a row of the confusion matrix that are not 0.
  std::span<const Confusion> confusions_of(std::int64_t truth) const;
  // Returns the row of the confusion matrix of a class, [K].
  std::vector<std::int64_t> confusion_row(std::int64_t truth) const;
};

ClassificationFigures figures_of(std::span<const ClassifiedSample> samples, std::int64_t classes);

// Returns the entries off the diagonal by falling count. Equal counts come by falling share of the
// samples of the truth, then by truth and prediction.
std::vector<Confusion> confused_pairs(const ClassificationFigures& figures);

// Returns the wrong samples by falling loss; equal losses come by index.
std::vector<ClassifiedSample> worst_first(std::span<const ClassifiedSample> samples);

// Returns at most `most` classes. If there are more, these are the classes that are confused with
// each other the most, and those that are confused stand together. Otherwise, all in label order.
std::vector<std::int64_t> most_confused(const ClassificationFigures& figures, std::size_t most);

}  // namespace dtn
