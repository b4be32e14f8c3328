#include "tasks/detect/region_loss.h"

#include <algorithm>
#include <array>
#include <map>

#include "dtn/ops/detection.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/primitive.h"
#include "tasks/detect/inference.h"
#include "tasks/detect/mask_targets.h"
#include "tasks/detect/proposals.h"

namespace dtn {
namespace {

namespace p = primitive;

// A step without any region still passes through the heads, so that all ranks do the same. This
// region then stands in, and its losses are multiplied by 0.
constexpr Box kNoRegion{0, 0, 1, 1};

Variable times(Context& ctx, const Variable& loss, double factor) {
  return factor == 1 ? loss : p::affine(ctx, loss, factor, 0);
}

Variable box_loss(Context& ctx, const Variable& deltas, const Regions& regions,
                  std::int64_t classes, double weight) {
  const auto count = static_cast<std::int64_t>(regions.boxes.size());
  Tensor labels = Tensor::full({count, classes}, DType::kInt64, ops::kIgnored);
  Tensor targets = Tensor::zeros({count, classes, 4}, DType::kFloat32);
  for (const ObjectRegion& object : regions.objects) {
    const std::int64_t at =
        object.region * classes + regions.labels[static_cast<std::size_t>(object.region)];
    labels.data<std::int64_t>()[at] = 0;
    std::ranges::copy(object.deltas, targets.data<float>() + 4 * at);
  }
  const Device device = deltas.value().device();
  const Tensor scale =
      Tensor::full({1}, DType::kFloat32, weight / static_cast<double>(count), device);
  return ops::box_loss(ctx, p::reshape(ctx, deltas, {count, classes, 4}),
                       {labels.to(device), targets.to(device)}, scale);
}

MaskFrame frame_of(const BatchImage& image) {
  return {image.frame(), image.padded.height, image.padded.width, image.mirrored};
}

// The targets of the masks of all objects: [objects cells, 1].
Tensor mask_targets(const Regions& regions, const DetectionBatch& batch,
                    const MaskOfAnnotation& mask_of) {
  constexpr std::int64_t kCells = kMaskTargetSize * kMaskTargetSize;
  const auto count = static_cast<std::int64_t>(regions.objects.size());
  Tensor targets = Tensor::empty({count * kCells, 1}, DType::kFloat32);
  std::array<std::uint8_t, kCells> cells;
  std::map<std::pair<std::int64_t, std::int64_t>, TruthMask> masks;  // by image and truth
  for (std::int64_t i = 0; i < count; ++i) {
    const ObjectRegion& object = regions.objects[static_cast<std::size_t>(i)];
    const auto region = static_cast<std::size_t>(object.region);
    const std::int64_t index = regions.images[region];
    const BatchImage& image = batch.images[static_cast<std::size_t>(index)];
    auto found = masks.find({index, object.truth});
    if (found == masks.end()) {
      const std::int64_t annotation = image.annotations[static_cast<std::size_t>(object.truth)];
      found = masks
                  .emplace(std::pair(index, object.truth),
                           TruthMask(mask_of(annotation), frame_of(image)))
                  .first;
    }
    found->second.write_target(regions.boxes[region], cells);
    std::ranges::copy(cells, targets.data<float>() + i * kCells);
  }
  return targets;
}

// The logits of the objects' own classes: [objects cells, 1] of masks [objects, cells, classes].
Variable own_logits(Context& ctx, const Variable& masks, const std::vector<std::int64_t>& labels) {
  const std::int64_t cells = masks.dim(1), classes = masks.dim(2);
  std::vector<std::int64_t> index;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::int64_t c = 0; c < cells; ++c) {
      index.push_back((static_cast<std::int64_t>(i) * cells + c) * classes + labels[i]);
    }
  }
  const auto count = static_cast<std::int64_t>(index.size());
  const Variable flat = p::reshape(ctx, masks, {masks.dim(0) * cells * classes});
  const Tensor rows = Tensor::from(index, {count}).to(masks.value().device());
  return p::reshape(ctx, p::gather(ctx, flat, 0, rows), {count, 1});
}

Variable mask_loss(Context& ctx, const Detector& detector, const std::vector<ops::RoiLevel>& levels,
                   const Regions& regions, const DetectionBatch& batch,
                   const MaskOfAnnotation& mask_of) {
  std::vector<Box> boxes;
  std::vector<std::int64_t> images, labels;
  for (const ObjectRegion& object : regions.objects) {
    boxes.push_back(regions.boxes[static_cast<std::size_t>(object.region)]);
    images.push_back(regions.images[static_cast<std::size_t>(object.region)]);
    labels.push_back(regions.labels[static_cast<std::size_t>(object.region)]);
  }
  const bool any = !boxes.empty();
  Tensor targets = any ? mask_targets(regions, batch, mask_of)
                       : Tensor::zeros({kMaskTargetSize * kMaskTargetSize, 1}, DType::kFloat32);
  if (!any) boxes = {kNoRegion}, images = {0}, labels = {0};
  const Device device = levels[0].features.value().device();
  const Variable features =
      ops::roi_align(ctx, levels, regions_of(boxes, images, device), Detector::kMaskSize);
  const Variable logits = own_logits(ctx, detector.predict_masks(ctx, features), labels);
  ops::Targets soft;
  soft.soft = targets.to(device);
  return times(ctx, ops::binary_cross_entropy(ctx, logits, soft).mean, any ? 1 : 0);
}

}  // namespace

void Regions::add(const RoiSamples& samples, std::int64_t image) {
  for (std::size_t i = 0; i < samples.truths.size(); ++i) {
    const auto region = static_cast<std::int64_t>(boxes.size() + i);
    objects.push_back({region, samples.truths[i], samples.deltas[i]});
  }
  boxes.insert(boxes.end(), samples.boxes.begin(), samples.boxes.end());
  labels.insert(labels.end(), samples.labels.begin(), samples.labels.end());
  images.resize(boxes.size(), image);
}

Regions sample_regions(Context& ctx, const Detector& detector, const DenseRule& rule,
                       const std::vector<DensePrediction>& dense, const DetectionBatch& batch) {
  Context unrecorded = ctx;
  unrecorded.tape = nullptr;
  const std::vector<Box> anchors = anchors_of(rule.levels, grids_of(dense));
  const std::vector<HostLevel> host = on_host(unrecorded, dense, rule);
  const ModelConfig& model = detector.config();
  const std::int64_t most = model.detector.roi_samples;
  const RoiRule roi_rule{.classes = model.num_classes, .sampling = {most, most / 4}};
  Regions regions;
  for (std::size_t b = 0; b < batch.images.size(); ++b) {
    const BatchImage& image = batch.images[b];
    const auto index = static_cast<std::int64_t>(b);
    const Proposals proposals =
        proposals_of(levels_of(host, index, anchors), image.frame(), kTrainingProposals);
    regions.add(roi_samples(proposals.boxes, {image.boxes, image.classes}, roi_rule, image.key),
                index);
  }
  return regions;
}

RegionLoss region_loss(Context& ctx, const Detector& detector, const Features& levels,
                       Regions regions, const DetectionBatch& batch,
                       const MaskOfAnnotation& mask_of) {
  const std::int64_t classes = detector.config().num_classes;
  const double weight = regions.boxes.empty() ? 0 : 1;
  if (regions.boxes.empty()) regions = {{kNoRegion}, {0}, {classes}, {}};
  const std::vector<ops::RoiLevel> sources = region_levels(levels, detector.strides());
  const Device device = sources[0].features.value().device();
  const Variable features = ops::roi_align(
      ctx, sources, regions_of(regions.boxes, regions.images, device), Detector::kBoxSize);
  const RoiPrediction predicted = detector.predict_boxes(ctx, features);
  ops::Targets targets;
  targets.labels =
      Tensor::from(regions.labels, {static_cast<std::int64_t>(regions.labels.size())}).to(device);
  RegionLoss loss;
  loss.classes = times(ctx, ops::cross_entropy(ctx, predicted.classes, targets).mean, weight);
  loss.boxes = box_loss(ctx, predicted.boxes, regions, classes, weight);
  loss.masks = mask_loss(ctx, detector, sources, regions, batch, mask_of);
  return loss;
}

}  // namespace dtn
