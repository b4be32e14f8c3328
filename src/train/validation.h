// The evaluations of a run, and which of them was the best.
#pragma once

#include <optional>

#include "train/run.h"

namespace dtn {

class Validation {
 public:
  explicit Validation(Run& run) : run_(run) {}

  // Evaluates the weights and their average and logs both. Whether the one that train.best names is
  // the best so far; nothing when a signal stopped it.
  std::optional<bool> run();
  // The figures of the weights again, of a run that is over; nothing is logged.
  void repeat();
  // The last of the weights.
  const Evaluation& last() const { return last_; }
  // The last of their average, if there is one.
  const std::optional<Evaluation>& last_of_average() const { return last_of_average_; }

 private:
  std::optional<Evaluation> evaluate_weights(bool stoppable);
  // The same of their average; nothing where there is none.
  std::optional<Evaluation> evaluate_average(bool stoppable);

  Run& run_;
  Evaluation last_;
  std::optional<Evaluation> last_of_average_;
};

}  // namespace dtn
