// A learner of classes that brings its task along.
#pragma once

#include "dtn/tasks/classify.h"
#include "train/learner.h"

namespace dtn::test {

// A base, so that the task is there before the learner, and longer.
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
