#include "tasks/detect/dense_targets.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "dtn/ops/primitive.h"
#include "tasks/boxes/box_deltas.h"

namespace dtn {
namespace {

// Rows of the targets of one image.
struct ImageRows {
  std::int64_t* labels;
  float* deltas;  // [anchors, 4]
};

// Marks all anchors as ignored that were not sampled.
void keep_sampled(const BoxSample& sample, std::vector<std::int32_t>& assigned) {
  std::vector<std::int32_t> kept(assigned.size(), kIgnoredBox);
  for (const std::vector<std::int64_t>* part : {&sample.positive, &sample.negative}) {
    for (const std::int64_t i : *part) {
      kept[static_cast<std::size_t>(i)] = assigned[static_cast<std::size_t>(i)];
    }
  }
  assigned = std::move(kept);
}

// Writes the targets of an image, and returns its part of N.
std::int64_t write_image(const DenseRule& rule, const std::vector<Box>& anchors,
                         const std::vector<std::uint8_t>& counts, const BatchImage& image,
                         const ImageRows& to) {
  std::vector<std::int32_t> assigned = assign_boxes(anchors, image.boxes, rule.assignment, counts);
  if (rule.sampling) {
    keep_sampled(sample_boxes(assigned, *rule.sampling, image.key, SampledStage::kAnchors),
                 assigned);
  }
  std::int64_t positive = 0, negative = 0;
  for (std::size_t i = 0; i < assigned.size(); ++i) {
    const std::int32_t truth = assigned[i];
    to.labels[i] = truth == kIgnoredBox ? ops::kIgnored : ops::kBackground;
    negative += truth == kBackgroundBox;
    if (truth < 0) continue;
    ++positive;
    const auto t = static_cast<std::size_t>(truth);
    to.labels[i] = rule.sampling ? 0 : image.classes[t];
    std::ranges::copy(encode_box(anchors[i], image.boxes[t]), to.deltas + 4 * i);
  }
  const std::int64_t objects = std::max<std::int64_t>(positive, 1);
  return rule.sampling ? objects + std::max<std::int64_t>(negative, 1) : objects;
}

// The predictions of a level with one row for each anchor: [B, n, values].
Variable rows_of_anchors(Context& ctx, const Variable& x, std::int64_t values) {
  return primitive::reshape(ctx, x, {x.dim(0), x.dim(1) * x.dim(2) / values, values});
}

// Adds the loss of a level to the sum of those before.
void add_to(Context& ctx, Variable& sum, const Variable& loss) {
  sum = sum.defined() ? primitive::add(ctx, sum, loss) : loss;
}

}  // namespace

DenseRule dense_rule(const ModelConfig& model) {
  if (model.detector.kind == DetectorKind::kRetinaNet) {
    return {retinanet_anchors(), kRetinaNetRule};
  }
  const std::int64_t samples = model.detector.rpn_samples;
  return {rpn_anchors(), kRpnRule, BoxSampling{samples, samples / 2}};
}

DenseTargets dense_targets(const DenseRule& rule, const std::vector<CellGrid>& grids,
                           const DetectionBatch& batch, Device device) {
  const std::vector<Box> anchors = anchors_of(rule.levels, grids);
  const auto images = static_cast<std::int64_t>(batch.images.size());
  const auto count = static_cast<std::int64_t>(anchors.size());
  Tensor labels = Tensor::empty({images, count}, DType::kInt64);
  Tensor deltas = Tensor::zeros({images, count, 4}, DType::kFloat32);
  std::int64_t total = 0;
  for (std::int64_t b = 0; b < images; ++b) {
    const BatchImage& image = batch.images[static_cast<std::size_t>(b)];
    const std::vector<CellGrid> own =
        grids_of(rule.levels, image.padded.height, image.padded.width);
    total += write_image(
        rule, anchors, anchors_inside(rule.levels, grids, own), image,
        {labels.data<std::int64_t>() + b * count, deltas.data<float>() + 4 * b * count});
  }
  return {{labels.to(device), deltas.to(device)}, 1 / static_cast<double>(total)};
}

DenseLoss dense_loss(Context& ctx, const DenseRule& rule,
                     const std::vector<DensePrediction>& levels, const DenseTargets& targets) {
  const Device device = targets.anchors.labels.device();
  const Tensor scale = Tensor::full({1}, DType::kFloat32, targets.scale, device);
  // Half the binary cross-entropy, so its scale is doubled.
  const ops::FocalOptions focal =
      rule.sampling ? ops::FocalOptions{.alpha = 0.5, .gamma = 0} : ops::FocalOptions{};
  const Tensor class_scale =
      rule.sampling ? Tensor::full({1}, DType::kFloat32, 2 * targets.scale, device) : scale;
  DenseLoss loss;
  ops::AnchorTargets part = targets.anchors;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const std::int64_t anchors = rule.levels[l].anchors();
    const std::int64_t classes = levels[l].classes.dim(2) / anchors;
    const Variable logits = rows_of_anchors(ctx, levels[l].classes, classes);
    add_to(ctx, loss.classes, ops::focal_loss(ctx, logits, part, class_scale, focal));
    add_to(ctx, loss.boxes,
           ops::box_loss(ctx, rows_of_anchors(ctx, levels[l].boxes, 4), part, scale));
    part.first += logits.dim(1);
  }
  DTN_CHECK(part.first == part.labels.dim(1), "predictions and targets of anchors differ");
  return loss;
}

std::vector<CellGrid> grids_of(const std::vector<DensePrediction>& levels) {
  std::vector<CellGrid> grids;
  for (const DensePrediction& level : levels) {
    grids.push_back({level.grid.height, level.grid.width});
  }
  return grids;
}

}  // namespace dtn
