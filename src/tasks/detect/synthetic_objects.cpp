#include "tasks/detect/synthetic_objects.h"

#include <algorithm>
#include <cstring>

#include "data/sample/random.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kObjectStream = 0xDE7EC710u, kPixelStream = 0xDE7EC711u;
constexpr std::int64_t kTrainSize = 1024, kValSize = 256;
constexpr int kObjects = 7;

coco::Record image_record(std::int64_t id, const DataConfig& data) {
  coco::Record record;
  record.list = coco::RecordList::kImages;
  record.id = id;
  record.width = data.scale_long;
  record.height = data.scale_short;
  record.text = cat("image ", id);
  for (const auto field : {coco::RecordField::kId, coco::RecordField::kWidth,
                           coco::RecordField::kHeight, coco::RecordField::kFileName}) {
    record.set(field);
  }
  return record;
}

coco::Record category_record(std::int64_t id) {
  coco::Record record;
  record.list = coco::RecordList::kCategories;
  record.id = id;
  record.text = cat("class ", id);
  record.set(coco::RecordField::kId);
  record.set(coco::RecordField::kName);
  return record;
}

// An object of a tenth to six tenths of the sides of its image.
coco::Record object_record(std::int64_t id, std::int64_t image, const ExperimentConfig& config,
                           const Philox4& words) {
  const int width = config.data.scale_long, height = config.data.scale_short;
  const double w = uniform(words.v[0], 0.1, 0.6) * width,
               h = uniform(words.v[1], 0.1, 0.6) * height;
  const double x = uniform(words.v[2], 0, width - w), y = uniform(words.v[3], 0, height - h);
  coco::Record record;
  record.list = coco::RecordList::kAnnotations;
  record.id = id;
  record.image_id = image;
  record.category_id = 1 + id % config.model.num_classes;
  record.box = {x, y, w, h};
  record.area = w * h;
  record.segmentation.kind = coco::SegmentationKind::kPolygons;
  record.segmentation.corners = {corner_at(x, y), corner_at(x + w, y), corner_at(x + w, y + h),
                                 corner_at(x, y + h)};
  record.segmentation.ends = {4};
  for (const auto field :
       {coco::RecordField::kId, coco::RecordField::kImageId, coco::RecordField::kCategoryId,
        coco::RecordField::kBox, coco::RecordField::kArea, coco::RecordField::kSegmentation}) {
    record.set(field);
  }
  return record;
}

CocoAnnotations make_annotations(const ExperimentConfig& config, Split split) {
  CocoAnnotationsBuilder builder("synthetic objects");
  for (std::int64_t k = 1; k <= config.model.num_classes; ++k) builder.add(category_record(k));
  const std::int64_t images =
      config.data.size.value_or(split == Split::kTrain ? kTrainSize : kValSize);
  const PhiloxKey key{config.seed, kObjectStream, static_cast<std::uint32_t>(split)};
  for (std::int64_t i = 1; i <= images; ++i) {
    builder.add(image_record(i, config.data));
    for (int k = 0; k < kObjects; ++k) {
      const std::int64_t id = (i - 1) * kObjects + k + 1;
      builder.add(object_record(id, i, config, philox_group(key, static_cast<std::uint64_t>(id))));
    }
  }
  return builder.finish();
}

class SyntheticObjects final : public CocoDataset {
 public:
  SyntheticObjects(const ExperimentConfig& config, Split split)
      : CocoDataset(make_annotations(config, split), "synthetic", split, config.model),
        key_{config.seed, kPixelStream, static_cast<std::uint32_t>(split)} {}

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    const CocoImage& listed = image(index);
    Image& pixels = workspace.image;
    pixels.width = static_cast<int>(listed.width);
    pixels.height = static_cast<int>(listed.height);
    pixels.channels = 3;
    pixels.pixels.resize(static_cast<std::size_t>(3 * listed.width * listed.height));
    const Philox4 words = philox_group(key_, static_cast<std::uint64_t>(index));
    const PhiloxKey own{static_cast<std::uint64_t>(words.v[1]) << 32 | words.v[0], 0, 0};
    for (std::size_t at = 0; at < pixels.pixels.size(); at += sizeof(Philox4)) {
      const Philox4 some = philox_group(own, at);
      std::memcpy(pixels.pixels.data() + at, &some,
                  std::min(sizeof some, pixels.pixels.size() - at));
    }
    return {.encoded = {}, .image = &pixels, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override { return item_name(index); }

 private:
  PhiloxKey key_;
};

}  // namespace

std::unique_ptr<CocoDataset> make_synthetic_objects(const ExperimentConfig& config, Split split) {
  return std::make_unique<SyntheticObjects>(config, split);
}

}  // namespace dtn
