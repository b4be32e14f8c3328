// Labelled images as samples of a task.
//
// Device fields: "image" [channels, size, size] float32 and "label" int64. If batches are mixed,
// also "partner_label" int64, the label of the image that each image is mixed with, and
// "label_share" float32, the weight of its own label.
//
// If images have any number of classes (Dataset::ready_fields()), "labels" [K] float32 stands in
// place of these three: 1 for the classes of the image, 0 for the others. Mixing mixes it, too.
//
// If the model reads a condition (condition_field()), both also have its field, from
// Dataset::ready_fields().
//
// Host fields: "label" or "labels", and either "image" or, in a quarter of the bytes, fields from
// which a device makes the same images to the last bit. These are "pixels" [size, size, channels]
// uint8, not yet mirrored, "flip" uint8 (1: mirror left to right) and, if Transform::erases(),
// "erasure" [5] int64; see EraseImages.
#pragma once

#include <memory>
#include <optional>

#include "data/sample/transforms.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn {

struct ImageSamplesOptions {
  // Carry pixels, for a device that makes images of them. A data set without pixels gives images.
  bool raw_pixels = false;
  // Mixing of batches; see data/sample/mixing.h.
  AugmentConfig mixing{};
  // The field that the model reads as its condition; unset: none.
  std::optional<FieldSpec> condition{};
};

// Returns the processing of a batch on the device: converts pixels to images if `raw`, and mixes
// images if `mixing` does. Null if there is nothing to do.
std::unique_ptr<BatchFinisher> make_image_finisher(const Transform& transform, bool raw,
                                                   const AugmentConfig& mixing, Device device);

class ImageSamples final : public SampleSource {
 public:
  // Throws ConfigError if the samples are sequences of tokens, and DataError if the data set lacks
  // the condition.
  ImageSamples(std::shared_ptr<const Dataset> dataset, Transform transform,
               const ImageSamplesOptions& options = {});

  const Dataset& dataset() const { return *dataset_; }
  const Transform& transform() const { return transform_; }
  bool carries_pixels() const { return raw_; }

  std::int64_t size() const override { return dataset_->size(); }
  const std::string& description() const override { return dataset_->description(); }
  std::string noun() const override { return "images"; }
  std::string sample_name(std::int64_t index) const override {
    return dataset_->sample_name(index);
  }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::vector<std::int64_t> labels() const override;
  std::string identity(std::int64_t index) const override;
  const Dataset* source_dataset() const override { return dataset_.get(); }
  std::vector<FieldSpec> host_fields() const override;
  std::vector<FieldSpec> device_fields() const override;
  std::unique_ptr<SampleSource::Workspace> make_workspace() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;
  std::unique_ptr<BatchFinisher> make_finisher(Device device) const override;

 private:
  FieldSpec image_spec() const;
  void check_condition() const;
  void write_condition(std::int64_t index, FieldRow& row) const;
  void write_label(std::int64_t index, FieldRow& row) const;
  void write_pixels(const PreparedImage& prepared, const SampleKey& key, FieldRow& row) const;

  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
  AugmentConfig mixing_;
  FieldSpec label_;
  std::optional<FieldSpec> condition_;
  bool raw_;
};

}  // namespace dtn
