// Writes predictions of images as text, JSON or a table.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/atomic_file.h"

namespace dtn::app {

struct Guess {
  std::int64_t label;
  double probability;
  bool predicted = true;  // for images with any number of classes: it reaches the threshold
};

// Returns the k most probable classes by the softmax of logits [K]. Ties go to the lower label.
std::vector<Guess> best_guesses(const float* logits, std::int64_t classes, std::int64_t k);

// For images with any number of classes: returns the k most probable classes by the sigmoid of
// logits [K], or all that reach the threshold if these are more. Ties go to the lower label.
std::vector<Guess> best_labels(const float* logits, std::int64_t classes, std::int64_t k,
                               double threshold);

struct PredictionFormat {
  bool text = false, json = false;  // to standard output: as text, or one object per line
  std::string csv;                  // path of a table; empty: none
  // Images may have any number of classes. Text has the predicted ones; JSON and table say for each
  // class if it is predicted.
  std::optional<double> threshold{};
};

// Writes predictions one by one.
class PredictionWriter {
 public:
  // `names`: names of the first classes; further classes have no known name.
  PredictionWriter(const PredictionFormat& format, std::vector<std::string> names);

  void add(const std::string& file, const std::vector<Guess>& guesses);
  void add_fault(const std::string& file, const std::string& what);
  // Moves the table to its final name. Without this call there is no table.
  void finish();

 private:
  std::string name_of(std::int64_t label) const;
  void print(const std::vector<Guess>& guesses) const;

  PredictionFormat format_;
  std::vector<std::string> names_;
  std::unique_ptr<AtomicFile> table_;
};

}  // namespace dtn::app
