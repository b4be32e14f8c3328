// The evaluations of a run, and the choice of the best.
#pragma once

#include <optional>

#include "data/feed/open_split.h"
#include "train/record/run_recorder.h"

namespace dtn {

class Validation {
 public:
  // The arguments must outlive the object. `split` may be null if no evaluation is due in the run,
  // and `references` if the task compares with none.
  Validation(Learner& learner, OpenSplit* split, OpenSplit* references, BestBy best,
             RunProgress& progress, RunRecorder& recorder, Communicator& ranks)
      : learner_(learner),
        split_(split),
        references_(references),
        best_(best),
        progress_(progress),
        recorder_(recorder),
        ranks_(ranks) {}

  // Evaluates the weights and their average and records both. Returns true if the evaluation that
  // train.best names is the best so far. `may_be_best` is false if no checkpoint can be written:
  // then the evaluation cannot be the best. Returns nothing if a signal stopped the evaluation.
  std::optional<bool> run(bool may_be_best);
  // Repeats the evaluations of a run that is finished, without a record.
  void repeat() { last_ = evaluate_all(false, new_meters()).value(); }
  // Returns true if the last evaluation of the weights had a finite loss. Nothing if there was no
  // evaluation, or if the task has no figure called loss.
  std::optional<bool> loss_is_finite() const { return finite_loss_in(last_.weights.metrics); }
  const Evaluations& last() const { return last_; }
  // The last evaluation of the weights that train.best names.
  const Evaluation& judged() const {
    return last_.average && best_ == BestBy::kEma ? *last_.average : last_.weights;
  }

 private:
  // Meters of the weights and, if the run has one, of their average.
  struct Meters {
    std::unique_ptr<Meter> weights, average;
  };
  Meters new_meters() const;
  // Nothing if a signal stopped the evaluation.
  std::optional<Evaluation> evaluate_weights(bool stoppable, Meter& meter);
  std::optional<Evaluations> evaluate_all(bool stoppable, const Meters& meters);
  // A figure is never the best if it is not finite, or if the loss of its weights is not finite.
  bool is_best(const Evaluation& judged) const;
  static std::optional<bool> finite_loss_in(const Metrics& metrics);

  Learner& learner_;
  OpenSplit *split_, *references_;
  BestBy best_;
  RunProgress& progress_;
  RunRecorder& recorder_;
  Communicator& ranks_;
  Evaluations last_;
};

}  // namespace dtn
