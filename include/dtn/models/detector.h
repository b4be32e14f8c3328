// A detector: a backbone with several stages, a feature pyramid on the stages' features, and heads
// that predict boxes, with Mask R-CNN also masks. Parameters have the names of MMDetection:
// backbone.*, neck.*, and bbox_head.* (RetinaNet) or rpn_head.*, roi_head.* (Mask R-CNN). All but
// the backbone are its head (Parameter::head).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class DenseHead;
class FeaturePyramid;
class RoiBoxHead;
class RoiMaskHead;

// Predictions at every token of a level of the pyramid, for A anchors and K classes.
struct DensePrediction {
  Variable classes;  // [B, h w, A K]: the logit of class k of anchor a in channel a K + k
  Variable boxes;    // [B, h w, 4 A]: value d of anchor a in channel 4 a + d
  TokenGrid grid;    // h x w
};

// Predictions for R regions and K classes.
struct RoiPrediction {
  Variable classes;  // [R, K + 1], logits; the last class is the background
  Variable boxes;    // [R, 4 K]: value d of class k in column 4 k + d
};

class Detector {
 public:
  // Sides of the features of a region, in tokens, for the box head and for the mask head.
  static constexpr std::int64_t kBoxSize = 7, kMaskSize = 14;

  // Builds and initialises the model, as Classifier does. Throws ConfigError if the configuration
  // is invalid, or the backbone has not four stages.
  Detector(const ModelConfig& config, std::uint64_t seed, DType dtype = DType::kFloat32,
           Device device = kCpu, const ModelRegistry& models = model_registry(),
           const NormRegistry& norms = norm_registry());
  ~Detector();

  // The levels of the pyramid for images [B, 3, H, W], the finest first, with strides().
  Features levels(Context&, const Tensor& images);
  // Image pixels between neighbouring tokens of each level.
  const std::vector<std::int64_t>& strides() const { return strides_; }
  // Number A of anchors at each token.
  std::int64_t anchors() const { return has_regions() ? 3 : 9; }
  // Number of classes of the dense predictions: RetinaNet's, or 1 for Mask R-CNN's proposals.
  std::int64_t dense_classes() const { return has_regions() ? 1 : config_.num_classes; }

  // Predictions of RetinaNet, or the proposals of Mask R-CNN, for each level.
  std::vector<DensePrediction> predict(Context&, const Features& levels) const;

  // True for Mask R-CNN, which has a second stage.
  bool has_regions() const { return config_.detector.kind == DetectorKind::kMaskRcnn; }
  // x [R, kBoxSize kBoxSize, C], the features of regions
  RoiPrediction predict_boxes(Context&, const Variable& x) const;
  // x [R, kMaskSize kMaskSize, C] -> logits of masks [R, 4 kMaskSize kMaskSize, K]
  Variable predict_masks(Context&, const Variable& x) const;

  const ModelConfig& config() const { return config_; }
  Backbone& backbone() { return *backbone_; }
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

 private:
  ModelConfig config_;
  ParameterStore store_;
  std::vector<std::int64_t> strides_;
  std::unique_ptr<Backbone> backbone_;
  std::unique_ptr<FeaturePyramid> pyramid_;
  std::unique_ptr<DenseHead> dense_;
  std::unique_ptr<RoiBoxHead> boxes_;   // null: no second stage
  std::unique_ptr<RoiMaskHead> masks_;  // null: no second stage
};

}  // namespace dtn
