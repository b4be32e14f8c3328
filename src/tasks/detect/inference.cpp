#include "tasks/detect/inference.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "dtn/ops/primitive.h"
#include "tasks/detect/paste_mask.h"
#include "tasks/detect/proposals.h"
#include "tasks/detect/roi_detections.h"

namespace dtn {
namespace {

static_assert(kMaskTargetSize == 2 * Detector::kMaskSize);

// Finest levels of the pyramid that regions read.
constexpr std::size_t kRegionLevels = 4;

Tensor host_values(Context& ctx, const Variable& x) {
  return primitive::cast(ctx, x, DType::kFloat32).value().to(kCpu);
}

// Predicts the masks of the objects, as logits of their classes: [objects, cells].
std::vector<float> masks_of(Context& ctx, const Detector& detector,
                            const std::vector<ops::RoiLevel>& levels,
                            const std::vector<Detection>& objects, const ResizedImage& image) {
  if (objects.empty()) return {};
  std::vector<Box> boxes;
  for (const Detection& object : objects) boxes.push_back(in_resized(object.box, image));
  const std::vector<std::int64_t> images(boxes.size(), 0);
  const Device device = levels[0].features.value().device();
  const Variable features =
      ops::roi_align(ctx, levels, regions_of(boxes, images, device), Detector::kMaskSize);
  const Tensor logits = host_values(ctx, detector.predict_masks(ctx, features));
  const std::int64_t cells = logits.dim(1), classes = logits.dim(2);
  std::vector<float> masks;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const float* from =
        logits.data<float>() + static_cast<std::int64_t>(i) * cells * classes + objects[i].label;
    for (std::int64_t c = 0; c < cells; ++c) masks.push_back(from[c * classes]);
  }
  return masks;
}

ImageDetections detect_regions(Context& ctx, const Detector& detector, const Features& levels,
                               std::span<const DenseLevel> dense, const ResizedImage& image) {
  const std::vector<Box> proposals = proposals_of(dense, image, kTestingProposals).boxes;
  if (proposals.empty()) return {};
  const std::vector<ops::RoiLevel> sources = region_levels(levels, detector.strides());
  const std::vector<std::int64_t> images(proposals.size(), 0);
  const Device device = levels[0].x.value().device();
  const RoiPrediction predicted = detector.predict_boxes(
      ctx, ops::roi_align(ctx, sources, regions_of(proposals, images, device), Detector::kBoxSize));
  const Tensor classes = host_values(ctx, predicted.classes);
  const Tensor deltas = host_values(ctx, predicted.boxes);
  ImageDetections found;
  found.objects =
      roi_detections({proposals, classes.values<float>(), deltas.values<float>()}, image);
  found.masks = masks_of(ctx, detector, sources, found.objects, image);
  return found;
}

}  // namespace

std::vector<HostLevel> on_host(Context& ctx, const std::vector<DensePrediction>& levels,
                               const DenseRule& rule) {
  std::vector<HostLevel> host;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const Tensor classes = host_values(ctx, levels[l].classes);
    const Tensor boxes = host_values(ctx, levels[l].boxes);
    const std::int64_t images = classes.dim(0), n = classes.dim(1) * rule.levels[l].anchors();
    host.push_back({classes.reshape({images, n, classes.numel() / (images * n)}),
                    boxes.reshape({images, n, 4})});
  }
  return host;
}

std::vector<DenseLevel> levels_of(const std::vector<HostLevel>& levels, std::int64_t b,
                                  std::span<const Box> anchors) {
  std::vector<DenseLevel> image;
  std::size_t first = 0;
  for (const HostLevel& level : levels) {
    const auto n = static_cast<std::size_t>(level.classes.dim(1));
    const auto row = [&](const Tensor& t) {
      const std::size_t each = n * static_cast<std::size_t>(t.dim(2));
      return t.values<float>().subspan(static_cast<std::size_t>(b) * each, each);
    };
    image.push_back({row(level.classes), row(level.deltas), anchors.subspan(first, n)});
    first += n;
  }
  return image;
}

ops::Rois regions_of(std::span<const Box> boxes, std::span<const std::int64_t> images,
                     Device device) {
  const auto count = static_cast<std::int64_t>(boxes.size());
  std::vector<std::int64_t> levels;
  std::vector<float> values;
  for (const Box& box : boxes) {
    levels.push_back(roi_level(box));
    values.insert(values.end(), {box.x1, box.y1, box.x2, box.y2});
  }
  return {Tensor::from(images, {count}).to(device), Tensor::from(levels, {count}).to(device),
          Tensor::from(values, {count, 4}).to(device)};
}

std::vector<ops::RoiLevel> region_levels(const Features& levels,
                                         const std::vector<std::int64_t>& strides) {
  std::vector<ops::RoiLevel> sources;
  for (std::size_t l = 0; l < kRegionLevels; ++l) {
    sources.push_back({levels[l].x, levels[l].grid.height, levels[l].grid.width,
                       1 / static_cast<double>(strides[l])});
  }
  return sources;
}

ImageDetections detect_objects(Context& ctx, Detector& detector, const DenseRule& rule,
                               const Tensor& pixels, const BatchImage& image) {
  const Features levels = detector.levels(ctx, pixels);
  const std::vector<DensePrediction> dense = detector.predict(ctx, levels);
  const std::vector<Box> anchors = anchors_of(rule.levels, grids_of(dense));
  const std::vector<HostLevel> host = on_host(ctx, dense, rule);
  const std::vector<DenseLevel> alone = levels_of(host, 0, anchors);
  if (detector.has_regions()) return detect_regions(ctx, detector, levels, alone, image.frame());
  return {dense_detections(alone, image.frame()), {}};
}

Fields fields_of(const std::vector<ImageDetections>& found, bool masks) {
  const auto n = static_cast<std::int64_t>(found.size());
  const std::int64_t most = DetectionRule().most, cells = kMaskTargetSize * kMaskTargetSize;
  Tensor counts = Tensor::zeros({n}, DType::kInt64);
  Tensor boxes = Tensor::zeros({n, most, 4}, DType::kFloat32);
  Tensor scores = Tensor::zeros({n, most}, DType::kFloat32);
  Tensor labels = Tensor::zeros({n, most}, DType::kInt64);
  Tensor logits;
  if (masks) logits = Tensor::zeros({n, most, cells}, DType::kFloat32);
  for (std::int64_t i = 0; i < n; ++i) {
    const ImageDetections& image = found[static_cast<std::size_t>(i)];
    counts.data<std::int64_t>()[i] = static_cast<std::int64_t>(image.objects.size());
    std::int64_t at = i * most;
    if (masks) std::ranges::copy(image.masks, logits.data<float>() + at * cells);
    for (const Detection& object : image.objects) {
      const Box& b = object.box;
      std::ranges::copy(std::array{b.x1, b.y1, b.x2, b.y2}, boxes.data<float>() + 4 * at);
      scores.data<float>()[at] = object.score;
      labels.data<std::int64_t>()[at++] = object.label;
    }
  }
  Fields fields{{"count", counts}, {"boxes", boxes}, {"scores", scores}, {"labels", labels}};
  if (masks) fields["masks"] = logits;
  return fields;
}

std::vector<Detection> objects_in(const Fields& outputs, std::int64_t row) {
  const std::int64_t count = outputs.at("count").data<std::int64_t>()[row];
  const std::int64_t first = row * outputs.at("boxes").dim(1);
  std::vector<Detection> objects;
  for (std::int64_t at = first; at < first + count; ++at) {
    const float* b = outputs.at("boxes").data<float>() + 4 * at;
    objects.push_back({{b[0], b[1], b[2], b[3]},
                       outputs.at("scores").data<float>()[at],
                       static_cast<std::int32_t>(outputs.at("labels").data<std::int64_t>()[at])});
  }
  return objects;
}

Rle mask_in(const Fields& outputs, std::int64_t row, std::int64_t object, const PixelSize& image) {
  const Tensor &masks = outputs.at("masks"), &boxes = outputs.at("boxes");
  const std::int64_t at = row * boxes.dim(1) + object, cells = masks.dim(2);
  const float* b = boxes.data<float>() + 4 * at;
  return paste_mask({masks.data<float>() + at * cells, static_cast<std::size_t>(cells)},
                    {b[0], b[1], b[2], b[3]}, image.height, image.width);
}

}  // namespace dtn
