#include "tasks/view_sources.h"

#include <algorithm>
#include <utility>

#include "data/feed/open_split.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "tasks/frozen/image_splits.h"

namespace dtn {

const std::shared_ptr<const Dataset>& ViewSources::training_images() const {
  if (!training_images_) {
    training_images_ = open_for_views(config_.data, config_.model, Split::kTrain, config_.seed,
                                      registries_.datasets);
  }
  return training_images_;
}

std::shared_ptr<const SampleSource> ViewSources::validation(Device device) const {
  if (!config_.data.val && !config_.data.split && reads_validation()) return nullptr;
  const std::shared_ptr<const Dataset> training = labelled_images();
  std::shared_ptr<const Dataset> images = open_validation_images(config_, *training, registries_);
  check_labelled(*images);
  return prepared(std::move(images), device);
}

std::shared_ptr<const SampleSource> ViewSources::references(Device device) const {
  return prepared(labelled_images(), device);
}

// Returns true if the data set has the key data.val, without which it always has the split.
bool ViewSources::reads_validation() const {
  const std::vector<std::string>& reads =
      registries_.datasets.at(config_.data.dataset).schema.reads;
  return std::ranges::find(reads, "val") != reads.end();
}

void ViewSources::check_labelled(const Dataset& images) const {
  if (images.has_labels()) return;
  throw DataError(
      cat(images.description(),
          ": has no labels; evaluations compare the label of each validation image with "
          "those of its nearest training images; ",
          config_.data.split   ? "unset data.split to train without evaluations"
          : reads_validation() ? "unset data.val to train without evaluations"
                               : "train on a data set with labels"));
}

// Returns the training images with their labels. Throws DataError if they have none.
std::shared_ptr<const Dataset> ViewSources::labelled_images() const {
  const std::shared_ptr<const Dataset>& images = training_images();
  check_labelled(*images);
  // Ready views are not the images that an evaluation needs.
  return images->ready_fields().empty() ? images : open_training_images(config_, registries_);
}

std::shared_ptr<const SampleSource> ViewSources::prepared(std::shared_ptr<const Dataset> images,
                                                          Device device) const {
  return image_samples_of(std::move(images), config_, Split::kVal, device, registries_);
}

}  // namespace dtn
