// A classification learner that owns its task.
#pragma once

#include "dtn/tasks/classify.h"
#include "train/learner.h"

namespace dtn::test {

// A base class, so that the task is constructed before the learner and destroyed after it.
struct ClassifyHolder {
  ClassifyHolder(const ExperimentConfig& config, Device device) : classify(config, device) {}
  Classify classify;
};

class ClassifyLearner : private ClassifyHolder, public Learner {
 public:
  explicit ClassifyLearner(const ExperimentConfig& config, Device device = kCpu,
                           Communicator* ranks = nullptr)
      : ClassifyHolder(config, device), Learner(config, classify, device, ranks) {}

  Classifier& model() { return classify.model(); }
};

}  // namespace dtn::test
