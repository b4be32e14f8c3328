// Images with truths for detectors, from COCO's files or from YOLO's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/coco/annotations.h"
#include "data/coco/training_truths.h"
#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// The classes are the categories by ascending id, and samples themselves have no label. The
// training split leaves out images and annotations, see TrainingTruths; the validation split has
// all images. Each keeps the order of the annotations.
class CocoDataset : public Dataset {
 public:
  // Image files are `folder`/<file name>. Throws DataError if there are no images or categories, or
  // more categories than classes of the model.
  CocoDataset(CocoAnnotations annotations, std::string folder, Split split,
              const ModelConfig& model);

  const CocoAnnotations& annotations() const { return annotations_; }
  // The image of a sample, and its index in annotations().images().
  const CocoImage& image(std::int64_t index) const {
    return annotations_.images()[image_index(index)];
  }
  std::size_t image_index(std::int64_t index) const {
    return static_cast<std::size_t>(images_[static_cast<std::size_t>(index)]);
  }
  // The annotations of a sample, as indices: in training those to learn from, otherwise all.
  std::span<const std::int32_t> truths(std::int64_t index) const;
  // The largest number of them in a sample.
  std::int64_t most_truths() const { return most_truths_; }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override;
  std::string sample_name(std::int64_t index) const override;
  std::string item_name(std::int64_t index) const override { return image(index).file_name; }

 private:
  void take_training(const TrainingTruths& truths);

  CocoAnnotations annotations_;
  std::string folder_;
  bool training_;
  std::vector<std::int32_t> images_;  // index of the image of each sample
  TrainingTruths truths_;             // of the training split
  std::int64_t most_truths_ = 0;
};

}  // namespace dtn
