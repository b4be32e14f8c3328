// Ends a run whose evaluations no longer get better (train.early_stop).
#pragma once

#include <string>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"
#include "dtn/core/metrics.h"
#include "train/snapshot.h"

namespace dtn {

class EarlyStop {
 public:
  // `progress` must outlive the object. Throws ConfigError if the run is to stop early and makes no
  // evaluation.
  EarlyStop(const ExperimentConfig& config, const TaskSchema& task, bool evaluates,
            RunProgress& progress);

  // Takes in an evaluation of the weights that train.best names. A figure that is not finite is
  // never better.
  void take(const Metrics& metrics);
  // True if the evaluations so far, those before a resume included, end the run.
  bool is_over() const;
  // The reason, a sentence.
  std::string reason() const;

 private:
  EarlyStopConfig stop_;
  FigureSchema figure_;
  RunProgress& progress_;
};

}  // namespace dtn
