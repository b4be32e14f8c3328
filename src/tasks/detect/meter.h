// Results of an evaluation of the task detect.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/coco/coco_dataset.h"
#include "dtn/core/detection_examples.h"
#include "dtn/core/metrics.h"
#include "tasks/coco_figures/evaluator.h"
#include "tasks/detect/samples.h"

namespace dtn {

// Returns the truths of a validation sample; masks are rasterised only for kMasks. Throws DataError
// for a truth without a mask.
std::vector<TruthObject> truths_of(const CocoDataset& truths, std::int64_t sample,
                                   OverlapKind kind);

// Returns the detections of row `row` of the outputs of Detect. Those of a CocoDataset have the ids
// of its categories, and masks of the size of the image.
std::vector<FoundObject> found_in(const Fields& outputs, std::int64_t row,
                                  std::span<const CocoCategory> categories, PixelSize image);

// COCO's twelve figures of boxes, bbox_AP ..., and of masks, segm_AP ..., times 100. A figure of no
// object is NaN, and so are those of masks if the model has none. Reads the fields "index" and
// "original" of a batch.
class DetectionMeter final : public Meter {
 public:
  DetectionMeter(std::shared_ptr<const CocoDataset> truths, bool masks);

  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override;
  Metrics result() const override;
  // The images of example_images(), with truths and the detections of a score that is shown.
  std::shared_ptr<const DetectionExamples> detections() const override;

  const CocoDataset& truths() const { return *truths_; }
  // The reports of boxes and, with masks, of masks.
  std::vector<CocoReport> reports() const;

 private:
  std::shared_ptr<const CocoDataset> truths_;
  std::vector<OverlapKind> kinds_;
  std::vector<CocoEvaluator> evaluators_;  // one for each kind
  std::vector<std::int64_t> shown_;        // positions of the examples, ascending
  std::vector<DetectionExample> examples_;
};

}  // namespace dtn
