// What a model makes of pictures, written as text, as JSON or as a table.
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
};

// The k most probable classes by the softmax of logits [K], the first of equals first.
std::vector<Guess> best_guesses(const float* logits, std::int64_t classes, std::int64_t k);

struct PredictionFormat {
  bool text = false, json = false;  // to standard output: for people, or an object a line
  std::string csv;                  // the path of a table, if any
};

// Writes predictions as they come.
class PredictionWriter {
 public:
  // `names` of classes, as many as are known.
  PredictionWriter(const PredictionFormat& format, std::vector<std::string> names);

  void add(const std::string& file, const std::vector<Guess>& guesses);
  void add_fault(const std::string& file, const std::string& what);
  // Gives the table its name; without it there is none.
  void finish();

 private:
  std::string name_of(std::int64_t label) const;

  PredictionFormat format_;
  std::vector<std::string> names_;
  std::unique_ptr<AtomicFile> table_;
};

}  // namespace dtn::app
