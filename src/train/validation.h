// The evaluations of a run, and the choice of the best.
#pragma once

#include <optional>

#include "train/run.h"

namespace dtn {

class Validation {
 public:
  explicit Validation(Run& run) : run_(run) {}

  // Evaluates the weights and their average and logs both. Returns true if the evaluation that
  // train.best names is the best so far. `may_be_best` is false if no checkpoint can be written:
  // then the evaluation cannot be the best. Returns nothing if a signal stopped the evaluation.
  std::optional<bool> run(bool may_be_best);
  // Repeats the evaluations of a run that is finished, without a log.
  void repeat();
  // Returns true if the last evaluation of the weights had a finite loss. Nothing if there was no
  // evaluation, or if the task has no figure called loss.
  std::optional<bool> loss_is_finite() const { return finite_loss_in(last_.metrics); }
  // Returns the last evaluation of the weights.
  const Evaluation& last() const { return last_; }
  // Returns the last evaluation of the average, if there is one.
  const std::optional<Evaluation>& last_of_average() const { return last_of_average_; }

 private:
  std::optional<Evaluation> evaluate_weights(bool stoppable);
  // Nothing if there is no average.
  std::optional<Evaluation> evaluate_average(bool stoppable);
  // A figure is never the best if it is not finite, or if the loss of its weights is not finite.
  bool is_best(const Evaluation& judged) const;
  static std::optional<bool> finite_loss_in(const Metrics& metrics);

  Run& run_;
  Evaluation last_;
  std::optional<Evaluation> last_of_average_;
};

}  // namespace dtn
