// Samples of the tasks that pre-train features without a classifier.
#pragma once

#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "dtn/tasks/registries.h"

namespace dtn {

class ViewSources {
 public:
  // The registries must outlive the object.
  ViewSources(const ExperimentConfig& config, const Registries& registries)
      : config_(config), registries_(registries) {}

  // Returns the training images, with or without labels. They are opened at the first call, so that
  // their folders are listed once.
  const std::shared_ptr<const Dataset>& training_images() const;
  // Returns the validation images, with the labels that the training images have for their classes;
  // null: data.val is not set, although the data set reads it. Throws DataError if the classes
  // cannot be matched, or if one of the splits has no labels.
  std::shared_ptr<const SampleSource> validation(Device device) const;
  // Returns the training images, prepared as for an evaluation, with their labels. Throws DataError
  // if they have no labels.
  std::shared_ptr<const SampleSource> references(Device device) const;

 private:
  bool reads_validation() const;
  void check_labelled(const Dataset& images) const;
  std::shared_ptr<const Dataset> labelled_images() const;
  std::shared_ptr<const SampleSource> prepared(std::shared_ptr<const Dataset> images,
                                               Device device) const;

  ExperimentConfig config_;
  const Registries& registries_;
  mutable std::shared_ptr<const Dataset> training_images_;  // null: not open yet
};

}  // namespace dtn
