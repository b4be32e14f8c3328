#include "dtn/tasks/detect.h"

#include <algorithm>

#include "core/format.h"
#include "data/sample/normalization.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/ops/primitive.h"
#include "tasks/detect/batch.h"
#include "tasks/detect/cost.h"
#include "tasks/detect/dense_targets.h"
#include "tasks/detect/inference.h"
#include "tasks/detect/meter.h"
#include "tasks/detect/region_loss.h"
#include "tasks/detect/samples.h"
#include "tasks/detect/synthetic_objects.h"
#include "tasks/model_text.h"

namespace dtn {
namespace {

// Throws ConfigError if the model cannot process images whose sides are multiples of
// data.size_divisor.
void check_divisor(const DataConfig& data, const Backbone& backbone) {
  const std::string problem = backbone.size_problem(ImageSize(data.size_divisor));
  if (problem.empty()) return;
  throw ConfigError(cat("data.size_divisor ", data.size_divisor,
                        ": the model cannot process images whose sides are multiples of it: ",
                        problem, "; the usual 32 suits backbones of four stages"));
}

// Throws ConfigError if the levels of the detector do not have the strides of the anchors.
void check_strides(const Detector& detector, const DenseRule& rule) {
  if (std::ranges::equal(detector.strides(), rule.levels, {}, {}, &AnchorLevel::stride)) return;
  throw ConfigError(cat("the first level of this detector has cells of ",
                        counted(detector.strides().front(), "pixels"),
                        ", but anchors are for cells of ", rule.levels.front().stride,
                        "; leave model.patch_size and model.reduction at those of the preset"));
}

// Throws DataError if a data set has other classes than those that a model has learnt.
void check_classes(const ClassList& learnt, const Dataset& dataset) {
  const std::vector<std::string>& names = dataset.class_names();
  for (std::size_t i = 0; i < std::min(names.size(), learnt.names.size()); ++i) {
    if (names[i] == learnt.names[i]) continue;
    throw DataError(cat(dataset.description(), ": class ", i, " is '", names[i], "', but '",
                        learnt.names[i], "' in ", learnt.owner,
                        "; evaluate with the categories that the model was trained with"));
  }
}

ClassList categories_of(const Dataset& dataset) {
  return {dataset.description(), dataset.class_names(), dataset.num_classes()};
}

void add_term(const char* name, const Variable& loss, Variable& sum, Context& ctx,
              std::vector<Term>& logged) {
  logged.push_back({name, loss.value()});
  sum = sum.defined() ? primitive::add(ctx, sum, loss) : loss;
}

}  // namespace

Detect::Detect(const TaskSetup& setup)
    : device_(setup.device),
      config_(setup.config),
      registries_(setup.registries),
      detector_(config_.model, config_.seed, DType::kFloat32, device_, registries_.models,
                registries_.norms),
      rule_(std::make_unique<DenseRule>(dense_rule(config_.model))),
      pixel_values_(Tensor::from(normalization_table(
                                     resolve_normalization(config_.data, 3, registries_.datasets)),
                                 {3, 256})
                        .to(device_)) {
  check_divisor(config_.data, detector_.backbone());
  check_strides(detector_, *rule_);
}

Detect::~Detect() = default;

std::shared_ptr<const Dataset> Detect::open(Split split) const {
  const std::lock_guard lock(opening_);
  std::shared_ptr<const Dataset>& dataset = splits_[split];
  if (!dataset && config_.data.dataset == "synthetic") {
    dataset = make_synthetic_objects(config_, split);
  }
  if (!dataset) {
    dataset =
        open_unlabelled(config_.data, config_.model, split, config_.seed, registries_.datasets);
    if (learnt_) check_classes(*learnt_, *dataset);
    for (const auto& [other, opened] : splits_) {
      if (other != split && opened) check_classes(categories_of(*opened), *dataset);
    }
  }
  return dataset;
}

std::shared_ptr<const CocoDataset> Detect::truths(Split split) const {
  auto truths = std::dynamic_pointer_cast<const CocoDataset>(open(split));
  if (truths) return truths;
  throw ConfigError(cat("the task detect needs images with boxes, but data.dataset ",
                        config_.data.dataset, " has none; use coco or yolo"));
}

std::shared_ptr<const SampleSource> Detect::source(Split split, Device) const {
  return std::make_shared<DetectionSamples>(open(split), config_, split);
}

void Detect::learn_classes(const SampleSource& training) {
  const auto* samples = dynamic_cast<const DetectionSamples*>(&training);
  if (!samples) return;
  const std::lock_guard lock(opening_);
  splits_[Split::kTrain] = samples->dataset();
}

std::shared_ptr<const SampleSource> Detect::samples_of(
    std::shared_ptr<const Dataset> images) const {
  return std::make_shared<DetectionSamples>(std::move(images), config_, Split::kVal);
}

std::vector<DensePrediction> Detect::predict(Context& ctx, const Tensor& images) {
  return detector_.predict(ctx, detector_.levels(ctx, images));
}

Variable Detect::loss(Context& ctx, const Fields& fields, std::vector<Term>& logged) {
  const DetectionBatch batch = read_batch(fields, config_.data, config_.seed);
  const Features levels = detector_.levels(ctx, padded_images(fields, 0, batch, pixel_values_));
  const std::vector<DensePrediction> dense = detector_.predict(ctx, levels);
  const DenseLoss first =
      dense_loss(ctx, *rule_, dense, dense_targets(*rule_, grids_of(dense), batch, device_));
  logged.clear();
  Variable sum;
  if (!detector_.has_regions()) {
    add_term("loss_cls", first.classes, sum, ctx, logged);
    add_term("loss_bbox", first.boxes, sum, ctx, logged);
    return sum;
  }
  add_term("loss_rpn_cls", first.classes, sum, ctx, logged);
  add_term("loss_rpn_bbox", first.boxes, sum, ctx, logged);
  const auto annotations = truths(Split::kTrain);
  const RegionLoss second =
      region_loss(ctx, detector_, levels, sample_regions(ctx, detector_, *rule_, dense, batch),
                  batch, [&](std::int64_t annotation) {
                    return annotations->annotations().mask(static_cast<std::size_t>(annotation));
                  });
  add_term("loss_cls", second.classes, sum, ctx, logged);
  add_term("loss_bbox", second.boxes, sum, ctx, logged);
  add_term("loss_mask", second.masks, sum, ctx, logged);
  return sum;
}

Fields Detect::outputs(Context& ctx, const Fields& fields) {
  const DetectionBatch batch = read_batch(fields, config_.data, config_.seed);
  std::vector<ImageDetections> found;
  for (std::size_t i = 0; i < batch.images.size(); ++i) {
    const DetectionBatch one = batch.only(i);
    const Tensor image = padded_images(fields, static_cast<std::int64_t>(i), one, pixel_values_);
    found.push_back(detect_objects(ctx, detector_, *rule_, image, one.images[0]));
  }
  return fields_of(found, detector_.has_regions());
}

std::unique_ptr<Meter> Detect::meter() const {
  return std::make_unique<DetectionMeter>(truths(Split::kVal), detector_.has_regions());
}

std::vector<Named<ParameterStore*>> Detect::stores() {
  return {{"model", &detector_.parameters()}};
}

Backbone* Detect::backbone() { return &detector_.backbone(); }

std::string Detect::description() const {
  const bool masks = detector_.has_regions();
  return cat(masks ? "Mask R-CNN on " : "RetinaNet on ",
             describe_backbone(config_.model, registries_.models.at(config_.model.family)), ", ",
             detector_.parameters().count(), " parameters");
}

std::string Detect::objective() const {
  return detector_.has_regions() ? "losses of Mask R-CNN: proposals, classes, boxes and masks"
                                 : "focal loss of the classes, and L1 loss of the boxes";
}

Complexity Detect::cost() { return detector_cost(config_, registries_); }

}  // namespace dtn
