#include "data/feed/image_samples.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dtn/core/check.h"

namespace dtn {
namespace {

struct ImageWorkspace final : SampleSource::Workspace {
  SampleWorkspace sample;
  TransformWorkspace transform;
};

const FieldSpec kLabel{"label", {}, DType::kInt64};

}  // namespace

ImageSamples::ImageSamples(std::shared_ptr<const Dataset> dataset, Transform transform,
                           const ImageSamplesOptions& options)
    : dataset_(std::move(dataset)),
      transform_(std::move(transform)),
      mixing_(options.mixing),
      raw_(options.raw_pixels && dataset_->has_pixels()) {
  if (dataset_->vocabulary() == 0) return;
  throw ConfigError(cat("the model takes images, but the data set has sequences of tokens: ",
                        dataset_->description()));
}

std::string ImageSamples::identity(std::int64_t index) const {
  return cat(dataset_->item_name(index), " ", dataset_->label(index));
}

FieldSpec ImageSamples::image_spec() const {
  const ImageSize& size = transform_.image_size();
  return {"image", {transform_.channels(), size.height, size.width}, DType::kFloat32};
}

std::vector<FieldSpec> ImageSamples::host_fields() const {
  if (!raw_) return {image_spec(), kLabel};
  const ImageSize& size = transform_.image_size();
  std::vector<FieldSpec> fields{
      {"pixels", {size.height, size.width, transform_.channels()}, DType::kUInt8},
      {"flip", {}, DType::kUInt8}};
  if (transform_.erases()) fields.push_back({"erasure", {5}, DType::kInt64});
  fields.push_back(kLabel);
  return fields;
}

std::vector<FieldSpec> ImageSamples::device_fields() const {
  std::vector<FieldSpec> fields{image_spec(), kLabel};
  if (mixing_.mixes()) {
    fields.push_back({"partner_label", {}, DType::kInt64});
    fields.push_back({"label_share", {}, DType::kFloat32});
  }
  return fields;
}

std::unique_ptr<SampleSource::Workspace> ImageSamples::make_workspace() const {
  return std::make_unique<ImageWorkspace>();
}

void ImageSamples::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                        SampleSource::Workspace& workspace) const {
  auto& ws = static_cast<ImageWorkspace&>(workspace);
  row.at<std::int64_t>("label")[0] = dataset_->label(index);
  const Sample sample = dataset_->load(index, ws.sample);
  if (!sample.ready.empty()) {
    DTN_CHECK(!raw_, dataset_->sample_name(index),
              " has no pixels, but its data set says that it has");
    const std::span<float> image = row.at<float>("image");
    DTN_CHECK(sample.ready.size() == image.size(), dataset_->sample_name(index), " has ",
              sample.ready.size(), " values, expected ", image.size());
    std::ranges::copy(sample.ready, image.begin());
    return;
  }
  const PreparedImage prepared =
      sample.image
          ? transform_.prepare(*sample.image, key, ws.transform)
          : transform_.decode_and_prepare(sample.encoded, ws.sample.name, key, ws.transform);
  if (raw_) return write_pixels(prepared, key, row);
  transform_.normalize(prepared, key, row.at<float>("image").data());
}

void ImageSamples::write_pixels(const PreparedImage& prepared, const SampleKey& key,
                                FieldRow& row) const {
  const std::span<std::uint8_t> pixels = row.at<std::uint8_t>("pixels");
  std::memcpy(pixels.data(), prepared.image->pixels.data(), pixels.size());
  row.at<std::uint8_t>("flip")[0] = prepared.flip;
  if (!transform_.erases()) return;
  const EraseBox box = transform_.erasure(key).value_or(EraseBox{});
  const std::int64_t values[] = {box.left, box.top, box.width, box.height,
                                 static_cast<std::int64_t>(box.noise)};
  std::ranges::copy(values, row.at<std::int64_t>("erasure").begin());
}

std::unique_ptr<BatchFinisher> ImageSamples::make_finisher(Device device) const {
  return make_image_finisher(transform_, raw_, mixing_, device);
}

}  // namespace dtn
