// Several classifiers that answer together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtn/data/dataset_registry.h"
#include "dtn/tasks/classify.h"

namespace dtn {

// The first classifier and others, which take the same fields. The outputs are the logarithms of
// the mean of their probabilities, so that top-1, cross-entropy and every other figure of logits is
// that of the mean. For evaluation only.
class Ensemble : public Classify {
 public:
  // The setup is that of the first. All must have the same number of classes.
  Ensemble(const TaskSetup&, std::vector<std::unique_ptr<Classify>> others);

  Fields outputs(Context&, const Fields& batch) override;
  std::vector<Named<ParameterStore*>> stores() override;
  std::string description() const override;

 private:
  std::vector<std::unique_ptr<Classify>> others_;
};

// log(mean over the members of softmax(logits)) of logits [n, K] float32 on the host, in float64.
// Finite for finite logits: a class that every member excludes keeps its own logarithm.
Tensor log_mean_probabilities(const std::vector<Tensor>& logits);

// Throws ConfigError, which names `named`, if it is no classifier that can join one of `first`: it
// has other classes, or its images are prepared in another way.
void check_joins_ensemble(const ExperimentConfig& first, const ExperimentConfig& other,
                          const std::string& named, const DatasetRegistry& datasets);

// Warns if data.split held out other images from the training of `named` than from that of the
// first model, whose held-out images are evaluated: `named` has learned from most of them.
void warn_of_other_split(const ExperimentConfig& first, const ExperimentConfig& other,
                         const std::string& named);

}  // namespace dtn
