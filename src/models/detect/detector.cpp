#include "dtn/models/detector.h"

#include "dtn/core/check.h"
#include "models/detect/dense_head.h"
#include "models/detect/pyramid.h"
#include "models/detect/roi_heads.h"

namespace dtn {
namespace {

// Returns the stages of the backbone that the pyramid reads: all, or all but the first.
std::vector<StageShape> pyramid_stages(const Backbone& backbone, const ModelConfig& config) {
  std::vector<StageShape> stages = backbone.stages();
  if (stages.size() != 4) {
    throw ConfigError(cat("model.detector needs a model with four stages, but ", config.preset,
                          " has ", stages.size(), "; use a preset such as pvt_tiny"));
  }
  if (config.detector.kind == DetectorKind::kRetinaNet) stages.erase(stages.begin());
  return stages;
}

FeaturePyramid::Options pyramid_options(const ModelConfig& config,
                                        const std::vector<StageShape>& stages) {
  FeaturePyramid::Options options{.channels = {},
                                  .width = config.detector.fpn_channels,
                                  .top = config.detector.kind == DetectorKind::kRetinaNet
                                             ? FeaturePyramid::Top::kConvolutions
                                             : FeaturePyramid::Top::kEverySecond};
  for (const StageShape& stage : stages) options.channels.push_back(stage.channels);
  return options;
}

}  // namespace

Detector::Detector(const ModelConfig& config, std::uint64_t seed, DType dtype, Device device,
                   const ModelRegistry& models, const NormRegistry& norms)
    : config_(config) {
  DTN_CHECK(config.detector.kind, "a detector needs model.detector");
  const Scope root{store_, "", &norms};
  backbone_ = models.at(config.family).make(root / "backbone", config);
  const std::vector<StageShape> stages = pyramid_stages(*backbone_, config);
  pyramid_ = std::make_unique<FeaturePyramid>(root / "neck", pyramid_options(config, stages));
  for (const StageShape& stage : stages) strides_.push_back(stage.stride);
  while (strides_.size() < 5) strides_.push_back(2 * strides_.back());
  const DetectorConfig& d = config.detector;
  const std::int64_t width = d.fpn_channels, classes = config.num_classes;
  if (!has_regions()) {
    dense_ = std::make_unique<RetinaHead>(
        root / "bbox_head", RetinaHead::Options{width, anchors(), classes, d.head_convs});
  } else {
    dense_ = std::make_unique<ProposalHead>(root / "rpn_head", width, anchors());
    const Scope heads = root / "roi_head";
    boxes_ = std::make_unique<RoiBoxHead>(heads / "bbox_head",
                                          RoiBoxHead::Options{width, kBoxSize, d.head_fc, classes});
    masks_ = std::make_unique<RoiMaskHead>(heads / "mask_head",
                                           RoiMaskHead::Options{width, classes, d.head_convs});
  }
  for (Parameter& p : store_.parameters()) p.head = !p.name.starts_with("backbone.");
  store_.allocate(dtype, device);
  store_.initialize(seed);
}

Detector::~Detector() = default;

Features Detector::levels(Context& ctx, const Tensor& images) {
  Features stages = backbone_->forward(ctx, {{"image", images}});
  if (!has_regions()) stages.erase(stages.begin());
  return pyramid_->forward(ctx, stages);
}

std::vector<DensePrediction> Detector::predict(Context& ctx, const Features& levels) const {
  std::vector<DensePrediction> predictions;
  for (const Tokens& level : levels) predictions.push_back(dense_->forward(ctx, level));
  return predictions;
}

RoiPrediction Detector::predict_boxes(Context& ctx, const Variable& x) const {
  DTN_CHECK(boxes_, "RetinaNet has no second stage");
  return boxes_->forward(ctx, x);
}

Variable Detector::predict_masks(Context& ctx, const Variable& x) const {
  DTN_CHECK(masks_, "RetinaNet has no masks");
  return masks_->forward(ctx, x, kMaskSize);
}

}  // namespace dtn
