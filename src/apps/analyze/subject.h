// An opened model, ready to be analyzed.
#pragma once

#include <memory>
#include <vector>

#include "apps/analyze/analysis.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/classify.h"

namespace dtn {

struct OpenSubject {
  const AnalysisSubject& given;
  std::unique_ptr<Task> task;
  Classify& classify;  // the task
  std::vector<LayerInfo> layers;

  Classifier& model() const { return classify.model(); }
  const ModelConfig& config() const { return given.config.model; }
  // Returns true if grids and widths change between layers.
  bool staged() const { return model().backbone().stages().size() > 1; }

  // Runs the model in evaluation mode, for all tokens, with an observer.
  Variable forward(const Fields& batch, Observer* observer, Tape* tape = nullptr) const;
};

// Throws ConfigError if the model is not a classifier, or has no layers that can be analyzed.
OpenSubject open_subject(const AnalysisSubject&, const Registries&);

}  // namespace dtn
