// Runs a detector on one image.
#pragma once

#include <vector>

#include "dtn/models/detector.h"
#include "tasks/detect/batch.h"
#include "tasks/detect/dense_detections.h"
#include "tasks/detect/dense_targets.h"
#include "tasks/detect/mask_targets.h"

namespace dtn {

struct ImageDetections {
  std::vector<Detection> objects;  // by falling score
  // [objects, kMaskTargetSize kMaskTargetSize] logits; empty: the model has no masks.
  std::vector<float> masks;
};

// Returns the objects in an image. `pixels` [1, 3, H, W] is padded_images() of the image alone.
ImageDetections detect_objects(Context&, Detector& detector, const DenseRule& rule,
                               const Tensor& pixels, const BatchImage& image);

// Returns the outputs of Detect for the images of a batch.
Fields fields_of(const std::vector<ImageDetections>& found, bool masks);
// The objects in row `row` of these outputs, by falling score.
std::vector<Detection> objects_in(const Fields& outputs, std::int64_t row);
// The mask of one of them, of the size of its image in the file. Only for outputs with masks.
Rle mask_in(const Fields& outputs, std::int64_t row, std::int64_t object, const PixelSize& image);

// The values of the predictions on the host, float32.
struct HostLevel {
  Tensor classes, deltas;  // [B, n, K], [B, n, 4]
};
std::vector<HostLevel> on_host(Context&, const std::vector<DensePrediction>& levels,
                               const DenseRule& rule);
// Image b of the levels; `anchors` are those of all levels.
std::vector<DenseLevel> levels_of(const std::vector<HostLevel>& levels, std::int64_t b,
                                  std::span<const Box> anchors);

// Regions on the device of the features, each at the level that its size gives.
ops::Rois regions_of(std::span<const Box> boxes, std::span<const std::int64_t> images,
                     Device device);
// The levels of the pyramid from which regions take their features.
std::vector<ops::RoiLevel> region_levels(const Features& levels,
                                         const std::vector<std::int64_t>& strides);

}  // namespace dtn
