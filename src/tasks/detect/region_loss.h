// Training of Mask R-CNN's second stage.
#pragma once

#include "data/coco/coco_dataset.h"
#include "dtn/models/detector.h"
#include "tasks/detect/batch.h"
#include "tasks/detect/dense_targets.h"

namespace dtn {

// Losses of the second stage, [1] each: the cross-entropy of the classes, the mean over all sampled
// regions; the L1 loss of the boxes of regions with an object, over the number of all sampled
// regions; the binary cross-entropy of their masks, the mean over their cells, 0 if there are none.
struct RegionLoss {
  Variable classes, boxes, masks;
};

// Makes proposals from the dense predictions, without a gradient, puts the truths of each image in
// front of them, samples model.roi_samples of an image, and computes the losses of the heads.
// `truths` has the masks. Throws DataError for a truth without a mask.
RegionLoss region_loss(Context&, const Detector& detector, const DenseRule& rule,
                       const Features& levels, const std::vector<DensePrediction>& dense,
                       const DetectionBatch& batch, const CocoDataset& truths);

}  // namespace dtn
