// Targets of dense heads: the class and the box of every anchor of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dtn/models/detector.h"
#include "dtn/ops/detection.h"
#include "tasks/boxes/anchors.h"
#include "tasks/boxes/assignment.h"
#include "tasks/boxes/sample_boxes.h"
#include "tasks/detect/batch.h"

namespace dtn {

// Anchors of a dense head, and the rule by which truths become their targets.
struct DenseRule {
  std::vector<AnchorLevel> levels;
  AssignmentRule assignment;
  // Number of anchors of an image that the loss sees; unset: all. With it, the head tells objects,
  // as class 0, from the background.
  std::optional<BoxSampling> sampling{};
};

// RetinaNet's rule, or that of Mask R-CNN's proposals with model.rpn_samples.
DenseRule dense_rule(const ModelConfig& model);

// The targets of all anchors, level after level. `scale` [1] is 1 / N. Without sampling, N is the
// sum over the images of max(positive anchors, 1); with sampling, of max(positive, 1) +
// max(negative, 1) of the sampled anchors.
struct DenseTargets {
  ops::AnchorTargets anchors;  // `first` is that of the first level
  double scale = 1;
};

// `grids` are those of the predictions for the batch. Labels and deltas are on `device`.
DenseTargets dense_targets(const DenseRule& rule, const std::vector<CellGrid>& grids,
                           const DetectionBatch& batch, Device device);

// Losses of a dense head, [1] each.
struct DenseLoss {
  Variable classes, boxes;
};

// RetinaNet's focal loss of the classes, or with sampling the binary cross-entropy, and the L1 loss
// of the boxes, both summed over all levels and multiplied by the scale.
DenseLoss dense_loss(Context&, const DenseRule& rule, const std::vector<DensePrediction>& levels,
                     const DenseTargets& targets);

// The grids of predictions.
std::vector<CellGrid> grids_of(const std::vector<DensePrediction>& levels);

}  // namespace dtn
