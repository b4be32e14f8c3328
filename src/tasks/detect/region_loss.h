// Training of Mask R-CNN's second stage.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/coco/rle.h"
#include "dtn/models/detector.h"
#include "tasks/boxes/box_deltas.h"
#include "tasks/detect/batch.h"
#include "tasks/detect/dense_targets.h"
#include "tasks/detect/roi_samples.h"

namespace dtn {

// A region with an object.
struct ObjectRegion {
  std::int64_t region;  // index in Regions::boxes
  std::int64_t truth;   // index in the truths of its image
  BoxDeltas deltas;     // from the region to the truth, in kRoiUnits
};

// The sampled regions of a batch.
struct Regions {
  std::vector<Box> boxes;            // in pixels of the resized images
  std::vector<std::int64_t> images;  // index of the image of each
  std::vector<std::int64_t> labels;  // a class, or the number of classes for the background
  std::vector<ObjectRegion> objects;

  // Adds the samples of an image.
  void add(const RoiSamples& samples, std::int64_t image);
};

// Makes proposals from the dense predictions, without a gradient, puts the truths of each image in
// front of them, and samples model.roi_samples of an image, at most a quarter with an object.
Regions sample_regions(Context&, const Detector& detector, const DenseRule& rule,
                       const std::vector<DensePrediction>& dense, const DetectionBatch& batch);

// Losses of the second stage, [1] each: the cross-entropy of the classes, the mean over all
// regions; the L1 loss of the boxes of regions with an object, over the number of all regions; the
// binary cross-entropy of their masks, the mean over their cells, 0 if there are none.
struct RegionLoss {
  Variable classes, boxes, masks;
};

// Returns the mask of an annotation, of the size of its image in the file.
using MaskOfAnnotation = std::function<Rle(std::int64_t annotation)>;

// Computes the losses of the heads. Without any region, the heads still run, and the losses are 0.
RegionLoss region_loss(Context&, const Detector& detector, const Features& levels, Regions regions,
                       const DetectionBatch& batch, const MaskOfAnnotation& mask_of);

}  // namespace dtn
