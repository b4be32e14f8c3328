// Object detection, and with Mask R-CNN also masks of the objects (dtn/models/detector.h). Losses,
// assignment and testing are those of MMDetection 2.13; see docs/detection.md.
//
// Fields: "pixels" uint8, an image of "size" [2] int64 (height, width) pixels, packed [height,
// width, 3]; "original" [2] int64, its size in the file. For training also "boxes" [T, 4] float32,
// ragged: x1, y1, x2, y2 in pixels of the image; "truths" [T, 2] int64, ragged: the class and the
// index of the annotation; "draw" [3] int64: the sample, the epoch, and 1 if the image is mirrored.
//
// Outputs, for at most 100 objects of each image: "count" [n] int64; "boxes" [n, 100, 4] float32 in
// pixels of the original image; "scores" [n, 100] float32, falling; "labels" [n, 100] int64; and
// with masks "masks" [n, 100, 28 28] float32, logits in the box.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "dtn/models/detector.h"
#include "dtn/tasks/task.h"

namespace dtn {

class CocoDataset;
struct DetectionBatch;
struct DenseRule;

// A task for detectors. An image is evaluated by itself, so its result does not depend on the
// others of its batch. In training each micro-batch of each rank divides its losses by its own
// number of objects, as MMDetection does on each device.
class Detect : public Task {
 public:
  // Throws ConfigError if the backbone cannot process images whose sides are multiples of
  // data.size_divisor, see Backbone::size_problem().
  explicit Detect(const TaskSetup&);
  ~Detect() override;

  // Opens each split once; the samples share it.
  std::shared_ptr<const SampleSource> source(Split, Device) const override;
  // Terms: loss_cls and loss_bbox; with Mask R-CNN also loss_rpn_cls, loss_rpn_bbox and loss_mask.
  Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) override;
  // Shapes depend on the images, and the targets are found on the host.
  bool has_fixed_shapes() const override { return false; }
  Fields outputs(Context&, const Fields& batch) override;
  // COCO's figures for the validation split, times 100: bbox_AP and so on, and segm_AP and so on,
  // which are NaN without masks.
  std::unique_ptr<Meter> meter() const override;
  std::vector<Named<ParameterStore*>> stores() override;
  Backbone* backbone() override;
  // The masks of training are those of these samples.
  void learn_classes(const SampleSource& training) override;
  // For training, a file is a detector, whose layers for other classes are left out, or a
  // classification model, which becomes the backbone.
  std::vector<std::string> load_weights(const std::string& file, WeightsUse use) override;
  std::string description() const override;
  std::string objective() const override;
  // The cost of an image of data.scale, with 1000 regions and 100 masks.
  Complexity cost() override;

  Detector& detector() { return detector_; }
  // Images without truths as samples of this task, for predictions.
  std::shared_ptr<const SampleSource> samples_of(std::shared_ptr<const Dataset> images) const;
  // Predictions of the dense heads for normalised images [n, 3, H, W], level by level.
  std::vector<DensePrediction> predict(Context&, const Tensor& images);

 private:
  std::shared_ptr<const Dataset> open(Split) const;
  std::shared_ptr<const CocoDataset> truths(Split) const;
  std::vector<std::string> load_to_train(const std::string& file);

  Device device_;
  ExperimentConfig config_;
  const Registries& registries_;
  Detector detector_;
  std::unique_ptr<DenseRule> rule_;
  Tensor pixel_values_;              // normalization_table()
  std::optional<ClassList> learnt_;  // of loaded weights
  mutable std::mutex opening_;
  mutable std::map<Split, std::shared_ptr<const Dataset>> splits_;
};

}  // namespace dtn
