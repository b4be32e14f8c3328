// The evaluations of a run, and which of them was the best.
#pragma once

#include <optional>

#include "train/run.h"

namespace dtn {

class Validation {
 public:
  explicit Validation(Run& run) : run_(run) {}

  // Evaluates the weights and their average and logs both. Returns true if the one that train.best
  // names is the best so far, which `may_be_best` allows only where a checkpoint can be written.
  // Returns nothing when a signal stopped it.
  std::optional<bool> run(bool may_be_best);
  // The figures of the weights again, of a run that is over; nothing is logged.
  void repeat();
  // True if the last evaluation of the weights had a finite loss. Nothing if there was none, or if
  // the task has no figure called loss.
  std::optional<bool> loss_is_finite() const { return finite_loss_in(last_.metrics); }
  // The last of the weights.
  const Evaluation& last() const { return last_; }
  // The last of their average, if there is one.
  const std::optional<Evaluation>& last_of_average() const { return last_of_average_; }

 private:
  std::optional<Evaluation> evaluate_weights(bool stoppable);
  // The same of their average; nothing where there is none.
  std::optional<Evaluation> evaluate_average(bool stoppable);
  // A figure that is not finite, or whose weights have a loss that is not, is never the best.
  bool is_best(const Evaluation& judged) const;
  static std::optional<bool> finite_loss_in(const Metrics& metrics);

  Run& run_;
  Evaluation last_;
  std::optional<Evaluation> last_of_average_;
};

}  // namespace dtn
