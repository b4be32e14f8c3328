// A model to look into, opened.
#pragma once

#include <memory>
#include <vector>

#include "analyze/analysis.h"
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
  // Whether grids and widths change on the way through it.
  bool staged() const { return model().backbone().stages().size() > 1; }

  // Runs the model in an evaluation, for all tokens, before an observer.
  Variable forward(const Fields& batch, Observer* observer, Tape* tape = nullptr) const;
};

// Throws ConfigError where the model is none of classes, or has no layers that can be looked into.
OpenSubject open_subject(const AnalysisSubject&, const Registries&);

}  // namespace dtn
