// An opened model, ready to be analyzed.
#pragma once

#include <memory>
#include <vector>

#include "apps/analyze/analysis.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/translate.h"

namespace dtn {

struct OpenSubject {
  const AnalysisSubject& given;
  std::unique_ptr<Task> task;
  Classify* classify;    // the task, if it is a classifier
  Translate* translate;  // the task, if it is an image-to-image model
  std::vector<LayerInfo> layers;

  Backbone& backbone() const { return *task->backbone(); }
  ParameterStore& parameters() const { return *task->stores().front().value; }
  const ModelConfig& config() const { return given.config.model; }
  // Returns true if grids and widths change between layers.
  bool staged() const { return backbone().stages().size() > 1; }

  // Runs the model in evaluation mode, for all tokens, with an observer, which sees the rows of the
  // batch. Returns the logits, or the images.
  Variable forward(const Fields& batch, Observer* observer, Tape* tape = nullptr) const;
};

// The name of the field with the images: "image", or "input" for an image-to-image model.
const char* image_field_of(const ExperimentConfig&);

// Throws ConfigError if the model is neither a classifier nor an image-to-image model, or has no
// layers that can be analyzed.
OpenSubject open_subject(const AnalysisSubject&, const Registries&);

}  // namespace dtn
