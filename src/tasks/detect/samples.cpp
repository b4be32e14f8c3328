#include "tasks/detect/samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/sample/bilinear.h"
#include "data/sample/random.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"
#include "tasks/boxes/boxes.h"

namespace dtn {
namespace {

constexpr std::uint32_t kFlipStream = 0xDE7EC701u;

// Scales a box in pixels of the file, mirrors it and cuts it at the border.
Box resized_box(const std::array<double, 4>& box, const PixelSize& from, const PixelSize& to,
                bool flip) {
  const double sx = static_cast<double>(to.width) / static_cast<double>(from.width);
  const double sy = static_cast<double>(to.height) / static_cast<double>(from.height);
  const auto width = static_cast<float>(to.width), height = static_cast<float>(to.height);
  const Box scaled = clip_box(
      {static_cast<float>(box[0] * sx), static_cast<float>(box[1] * sy),
       static_cast<float>((box[0] + box[2]) * sx), static_cast<float>((box[1] + box[3]) * sy)},
      width, height);
  if (!flip) return scaled;
  return {width - scaled.x2, scaled.y1, width - scaled.x1, scaled.y2};
}

}  // namespace

PixelSize resized_size(const PixelSize& original, const DataConfig& data) {
  const auto [small, large] = std::minmax(original.height, original.width);
  const double factor = std::min(data.scale_long / static_cast<double>(large),
                                 data.scale_short / static_cast<double>(small));
  const auto resized = [&](std::int64_t side) {
    const auto pixels =
        static_cast<std::int64_t>(std::floor(static_cast<double>(side) * factor + 0.5));
    return std::max<std::int64_t>(pixels, 1);
  };
  return {resized(original.height), resized(original.width)};
}

PixelSize padded_size(const PixelSize& size, const DataConfig& data) {
  const std::int64_t d = data.size_divisor;
  return {(size.height + d - 1) / d * d, (size.width + d - 1) / d * d};
}

struct DetectionSamples::ImageWorkspace final : SampleSource::Workspace {
  SampleWorkspace sample;
  Image decoded, colour;
  BilinearWorkspace resize;
};

DetectionSamples::DetectionSamples(std::shared_ptr<const Dataset> dataset,
                                   const ExperimentConfig& config, Split split)
    : dataset_(std::move(dataset)),
      truths_(dynamic_cast<const CocoDataset*>(dataset_.get())),
      data_(config.data),
      training_(split == Split::kTrain) {
  if (training_ && !truths_) {
    throw ConfigError(cat("the task detect needs images with boxes, but data.dataset ",
                          data_.dataset, " has none; use coco or yolo"));
  }
  if (!dataset_->has_pixels()) {
    throw ConfigError(cat("the task detect needs images, but data.dataset is ", data_.dataset));
  }
}

std::string DetectionSamples::identity(std::int64_t index) const {
  std::string text = dataset_->item_name(index);
  if (!truths_) return text;
  for (const std::int32_t k : truths_->truths(index)) {
    const CocoAnnotation& truth = truths_->annotations().annotations()[static_cast<std::size_t>(k)];
    text += cat(" ", truth.category, " ", truth.box[0], " ", truth.box[1], " ", truth.box[2], " ",
                truth.box[3]);
  }
  return text;
}

std::vector<std::uint8_t> DetectionSamples::groups() const {
  if (!training_) return {};
  std::vector<std::uint8_t> wide;
  for (std::int64_t i = 0; i < size(); ++i) {
    const CocoImage& image = truths_->image(i);
    wide.push_back(image.width > image.height);
  }
  return wide;
}

std::vector<FieldSpec> DetectionSamples::host_fields() const {
  const std::int64_t bytes = std::int64_t{3} * data_.scale_long * data_.scale_short;
  std::vector<FieldSpec> fields = {{"pixels", {bytes}, DType::kUInt8},
                                   {"size", {2}, DType::kInt64},
                                   {"original", {2}, DType::kInt64}};
  if (!training_) return fields;
  const std::int64_t most = std::max<std::int64_t>(truths_->most_truths(), 1);
  fields.push_back({"boxes", {most, 4}, DType::kFloat32, true});
  fields.push_back({"truths", {most, 2}, DType::kInt64, true});
  fields.push_back({"draw", {3}, DType::kInt64});
  return fields;
}

std::unique_ptr<SampleSource::Workspace> DetectionSamples::make_workspace() const {
  return std::make_unique<ImageWorkspace>();
}

const Image& DetectionSamples::decode(std::int64_t index, ImageWorkspace& ws) const {
  const Sample sample = dataset_->load(index, ws.sample);
  const Image* image = sample.image;
  if (!image) {
    decode_image_into(sample.encoded, ws.sample.name, ws.decoded, {.upright = data_.exif});
    image = &ws.decoded;
  }
  if (image->channels == 1) {
    gray_to_rgb(*image, ws.colour);
    image = &ws.colour;
  }
  if (!truths_) return *image;
  const CocoImage& listed = truths_->image(index);
  if (listed.width != image->width || listed.height != image->height) {
    throw DataError(cat(dataset_->sample_name(index), ": has ", image->width, " x ", image->height,
                        " pixels, but ", listed.width, " x ", listed.height, " in ",
                        truths_->annotations().name(),
                        "; its boxes would be wrong, so mend one of the two",
                        listed.width == image->height && listed.height == image->width
                            ? cat("; or set data.exif: ", data_.exif ? "false" : "true")
                            : ""));
  }
  return *image;
}

void DetectionSamples::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                            SampleSource::Workspace& workspace) const {
  auto& ws = static_cast<ImageWorkspace&>(workspace);
  const Image& image = decode(index, ws);
  const PixelSize original{image.height, image.width}, size = resized_size(original, data_);
  const bool flip = training_ && uniform(philox_u32({key.seed, kFlipStream, key.epoch}, key.sample),
                                         0, 1) < data_.flip;
  const std::span<std::uint8_t> pixels = row.at<std::uint8_t>("pixels");
  resize_bilinear(image, size.height, size.width, flip, ws.resize, pixels.data());
  const auto used = static_cast<std::ptrdiff_t>(3 * size.height * size.width);
  std::fill(pixels.begin() + used, pixels.end(), std::uint8_t{0});
  std::ranges::copy(std::array{size.height, size.width}, row.at<std::int64_t>("size").begin());
  std::ranges::copy(std::array{original.height, original.width},
                    row.at<std::int64_t>("original").begin());
  if (!training_) return;
  write_truths(index, original, size, flip, row);
  std::ranges::copy(std::array<std::int64_t, 3>{index, key.epoch, flip},
                    row.at<std::int64_t>("draw").begin());
}

void DetectionSamples::write_truths(std::int64_t index, const PixelSize& original,
                                    const PixelSize& size, bool flip, FieldRow& row) const {
  const auto annotations = truths_->annotations().annotations();
  std::vector<Box> boxes;
  std::vector<std::int64_t> truths;
  for (const std::int32_t k : truths_->truths(index)) {
    const CocoAnnotation& truth = annotations[static_cast<std::size_t>(k)];
    const Box box = resized_box(truth.box, original, size, flip);
    if (!(box.x1 < box.x2) || !(box.y1 < box.y2)) continue;  // less than one rounding wide
    boxes.push_back(box);
    truths.insert(truths.end(), {truth.category, k});
  }
  const auto count = static_cast<std::int64_t>(boxes.size());
  float* to = row.ragged<float>("boxes", count).data();
  for (const Box& box : boxes) {
    for (const float value : {box.x1, box.y1, box.x2, box.y2}) *to++ = value;
  }
  std::ranges::copy(truths, row.ragged<std::int64_t>("truths", count).begin());
}

}  // namespace dtn
