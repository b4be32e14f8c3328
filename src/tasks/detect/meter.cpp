#include "tasks/detect/meter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/fields.h"
#include "dtn/core/parallel.h"
#include "dtn/dist/communicator.h"
#include "tasks/detect/inference.h"
#include "tasks/detect_examples/detections_file.h"
#include "tasks/detect_examples/example_images.h"

namespace dtn {
namespace {

std::vector<std::int64_t> ids_of(std::span<const CocoCategory> categories) {
  std::vector<std::int64_t> ids;
  for (const CocoCategory& category : categories) ids.push_back(category.id);
  return ids;
}

// Gathers the evaluators' images of all ranks in place of those of this one.
CocoEvaluator merged(const CocoEvaluator& own, OverlapKind kind, Communicator& ranks) {
  const std::vector<std::int64_t> packed = own.packed();
  const auto length = static_cast<std::int64_t>(packed.size());
  const Tensor lengths = ranks.all_gather(Tensor::from(std::vector{length}, {1}));
  const std::int64_t most =
      std::max<std::int64_t>(std::ranges::max(lengths.values<std::int64_t>()), 1);
  Tensor padded = Tensor::zeros({most}, DType::kInt64);
  std::ranges::copy(packed, padded.data<std::int64_t>());
  const Tensor all = ranks.all_gather(padded);
  CocoEvaluator everything(own.categories(), kind);
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    const auto count = static_cast<std::size_t>(lengths.data<std::int64_t>()[r]);
    everything.add_packed({all.data<std::int64_t>() + r * most, count});
  }
  return everything;
}

}  // namespace

std::vector<TruthObject> truths_of(const CocoDataset& truths, std::int64_t sample,
                                   OverlapKind kind) {
  const CocoAnnotations& all = truths.annotations();
  std::vector<TruthObject> objects;
  for (const std::int32_t k : truths.truths(sample)) {
    const auto index = static_cast<std::size_t>(k);
    const CocoAnnotation& truth = all.annotations()[index];
    if (truth.category < 0) continue;
    TruthObject& object = objects.emplace_back();
    object.category = all.categories()[static_cast<std::size_t>(truth.category)].id;
    object.box = truth.box;
    object.area = truth.area;
    object.crowd = truth.crowd;
    if (kind == OverlapKind::kMasks) object.mask = all.mask(index);
  }
  return objects;
}

std::vector<FoundObject> found_in(const Fields& outputs, std::int64_t row,
                                  std::span<const CocoCategory> categories, PixelSize image) {
  const std::vector<Detection> objects = objects_in(outputs, row);
  std::vector<std::int64_t> known;  // the model may have more classes than the images
  for (std::int64_t i = 0; i < std::ssize(objects); ++i) {
    if (objects[static_cast<std::size_t>(i)].label < std::ssize(categories)) known.push_back(i);
  }
  std::vector<FoundObject> found(known.size());
  parallel_for(std::ssize(known), [&](std::int64_t place) {
    const std::int64_t i = known[static_cast<std::size_t>(place)];
    const Detection& object = objects[static_cast<std::size_t>(i)];
    const Box& box = object.box;
    FoundObject& to = found[static_cast<std::size_t>(place)];
    to.category = categories[static_cast<std::size_t>(object.label)].id;
    to.box = {box.x1, box.y1, static_cast<double>(box.x2) - box.x1,
              static_cast<double>(box.y2) - box.y1};
    to.score = object.score;
    if (outputs.has("masks")) to.mask = mask_in(outputs, row, i, image);
  });
  return found;
}

namespace {

std::array<double, 4> corners_of(const CocoBox& box) {
  return {box[0], box[1], box[0] + box[2], box[1] + box[3]};
}

std::string mask_text(const Rle& mask) { return mask.runs.empty() ? "" : rle_text(mask); }

// Returns an image with its truths and detections; with masks for kMasks.
DetectionExample example_of(const CocoDataset& truths, std::int64_t sample,
                            const std::vector<FoundObject>& found, OverlapKind kind) {
  const CocoImage& image = truths.image(sample);
  const CocoAnnotations& all = truths.annotations();
  DetectionExample example{.index = sample, .width = image.width, .height = image.height};
  for (const TruthObject& truth : truths_of(truths, sample, kind)) {
    example.truths.push_back({.box = corners_of(truth.box),
                              .label = all.find_category(truth.category),
                              .crowd = truth.crowd,
                              .mask = mask_text(truth.mask)});
  }
  for (const FoundObject& object : found) {
    if (object.score < kShownScore) continue;
    example.detections.push_back({.box = corners_of(object.box),
                                  .label = all.find_category(object.category),
                                  .score = object.score,
                                  .mask = mask_text(object.mask)});
  }
  return example;
}

}  // namespace

DetectionMeter::DetectionMeter(std::shared_ptr<const CocoDataset> truths, bool masks)
    : truths_(std::move(truths)),
      kinds_{OverlapKind::kBoxes},
      shown_(example_images(truths_->size())) {
  if (masks) kinds_.push_back(OverlapKind::kMasks);
  for (const OverlapKind kind : kinds_) {
    evaluators_.emplace_back(ids_of(truths_->annotations().categories()), kind);
  }
}

void DetectionMeter::add(const Fields& batch, const Fields& outputs) {
  const Tensor &index = batch.at("index"), &sizes = batch.at("original");
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const std::int64_t sample = index.data<std::int64_t>()[i];
    const std::int64_t* size = sizes.data<std::int64_t>() + 2 * i;
    const std::vector<FoundObject> found =
        found_in(outputs, i, truths_->annotations().categories(), {size[0], size[1]});
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      evaluators_[k].add(truths_->image(sample).id, truths_of(*truths_, sample, kinds_[k]), found);
    }
    if (std::ranges::binary_search(shown_, sample)) {
      examples_.push_back(example_of(*truths_, sample, found, kinds_.back()));
    }
  }
}

void DetectionMeter::merge(Communicator& ranks) {
  if (ranks.is_single()) return;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    evaluators_[k] = merged(evaluators_[k], kinds_[k], ranks);
  }
  examples_ = gather_examples(examples_, ranks);
}

std::shared_ptr<const DetectionExamples> DetectionMeter::detections() const {
  auto examples = std::make_shared<DetectionExamples>();
  examples->images = examples_;
  const std::vector<CocoReport> all = reports();
  for (std::size_t k = 0; k < all.size(); ++k) {
    PrecisionCurves& curves = examples->curves.emplace_back();
    curves.name = name_of(kinds_[k]);
    curves.ap = all[k].at("AP");
    curves.precision = all[k].precision;
  }
  return examples;
}

std::vector<CocoReport> DetectionMeter::reports() const {
  std::vector<CocoReport> reports;
  for (const CocoEvaluator& evaluator : evaluators_) reports.push_back(evaluator.report());
  return reports;
}

Metrics DetectionMeter::result() const {
  Metrics metrics{.values = {}, .primary = "bbox_AP"};
  const std::vector<CocoReport> all = reports();
  for (const OverlapKind kind : {OverlapKind::kBoxes, OverlapKind::kMasks}) {
    const auto k = static_cast<std::size_t>(kind == OverlapKind::kMasks);
    for (std::size_t f = 0; f < kCocoFigures.size(); ++f) {
      const double value = k < all.size() ? all[k].figures[f] : -1;
      metrics.values.emplace_back(
          cat(name_of(kind), "_", kCocoFigures[f]),
          value < 0 ? std::numeric_limits<double>::quiet_NaN() : 100 * value);
    }
    if (k >= all.size()) continue;
    const CocoReport& report = all[k];
    metrics.text += format("%s%s AP %.2f  AP50 %.2f  AP75 %.2f", k ? "  " : "", k ? "mask" : "box",
                           100 * report.at("AP"), 100 * report.at("AP50"), 100 * report.at("AP75"));
  }
  return metrics;
}

}  // namespace dtn
