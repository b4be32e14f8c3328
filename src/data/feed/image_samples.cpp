#include "data/feed/image_samples.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/classes/class_counts.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

struct ImageWorkspace final : SampleSource::Workspace {
  SampleWorkspace sample;
  TransformWorkspace transform;
};

const FieldSpec kLabel{"label", {}, DType::kInt64};

// Returns the field with the classes of a sample.
FieldSpec label_spec(const Dataset& dataset) {
  const Tensor* several = dataset.ready_fields().find("labels");
  if (!several) return kLabel;
  return {"labels", {several->dim(1)}, DType::kFloat32};
}

}  // namespace

ImageSamples::ImageSamples(std::shared_ptr<const Dataset> dataset, Transform transform,
                           const ImageSamplesOptions& options)
    : dataset_(std::move(dataset)),
      transform_(std::move(transform)),
      mixing_(options.mixing),
      label_(label_spec(*dataset_)),
      condition_(options.condition),
      raw_(options.raw_pixels && dataset_->has_pixels()) {
  if (dataset_->vocabulary() > 0) {
    throw ConfigError(cat("the model takes images, but the data set has sequences of tokens: ",
                          dataset_->description()));
  }
  if (condition_) check_condition();
}

std::vector<std::int64_t> ImageSamples::labels() const { return labels_of(*dataset_); }

void ImageSamples::check_condition() const {
  const Tensor* values = dataset_->ready_fields().find(condition_->name);
  if (!values) {
    throw DataError(cat("the model reads the field `", condition_->name,
                        "` of each sample (model.condition.from), which ", dataset_->description(),
                        " does not have; ",
                        condition_->dtype == DType::kInt64
                            ? "set data.label_sets, or use data.dataset: tensors with a tensor "
                            : "use data.dataset: tensors with a tensor ",
                        "`", condition_->name, "`"));
  }
  const Shape wanted = shape_of(*condition_, dataset_->size());
  if (values->dtype() == condition_->dtype && values->shape() == wanted) return;
  throw DataError(cat(dataset_->description(), ": `", condition_->name, "` is ",
                      name_of(values->dtype()), " ", to_string(values->shape()),
                      ", but the model reads ", name_of(condition_->dtype), " ", to_string(wanted),
                      " (model.condition)"));
}

void ImageSamples::write_condition(std::int64_t index, FieldRow& row) const {
  const Tensor& values = dataset_->ready_fields().at(condition_->name);
  if (condition_->dtype == DType::kInt64) {
    row.at<std::int64_t>(condition_->name)[0] = values.data<std::int64_t>()[index];
    return;
  }
  const std::span<float> to = row.at<float>(condition_->name);
  std::ranges::copy_n(values.data<float>() + index * static_cast<std::int64_t>(to.size()),
                      static_cast<std::ptrdiff_t>(to.size()), to.begin());
}

void ImageSamples::write_label(std::int64_t index, FieldRow& row) const {
  if (label_ == kLabel) {
    row.at<std::int64_t>("label")[0] = dataset_->label(index);
    return;
  }
  const std::span<float> to = row.at<float>("labels");
  const auto* from = dataset_->ready_fields().at("labels").data<std::uint8_t>();
  std::copy_n(from + index * label_.row[0], to.size(), to.begin());
}

std::string ImageSamples::identity(std::int64_t index) const {
  std::string identity = cat(dataset_->item_name(index), " ", dataset_->label(index));
  if (label_ != kLabel) {
    const auto* labels = dataset_->ready_fields().at("labels").data<std::uint8_t>();
    for (std::int64_t k = 0; k < label_.row[0]; ++k) {
      if (labels[index * label_.row[0] + k]) identity += cat(" ", k);
    }
  }
  if (!condition_ || condition_->dtype != DType::kInt64) return identity;
  const Tensor& styles = dataset_->ready_fields().at(condition_->name);
  return cat(identity, " ", styles.data<std::int64_t>()[index]);
}

FieldSpec ImageSamples::image_spec() const {
  const ImageSize& size = transform_.image_size();
  return {"image", {transform_.channels(), size.height, size.width}, DType::kFloat32};
}

std::vector<FieldSpec> ImageSamples::host_fields() const {
  std::vector<FieldSpec> fields;
  if (raw_) {
    const ImageSize& size = transform_.image_size();
    fields = {{"pixels", {size.height, size.width, transform_.channels()}, DType::kUInt8},
              {"flip", {}, DType::kUInt8}};
    if (transform_.erases()) fields.push_back({"erasure", {5}, DType::kInt64});
  } else {
    fields.push_back(image_spec());
  }
  fields.push_back(label_);
  if (condition_) fields.push_back(*condition_);
  return fields;
}

std::vector<FieldSpec> ImageSamples::device_fields() const {
  std::vector<FieldSpec> fields{image_spec(), label_};
  if (condition_) fields.push_back(*condition_);
  if (mixing_.mixes() && label_ == kLabel) {
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
  write_label(index, row);
  if (condition_) write_condition(index, row);
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
