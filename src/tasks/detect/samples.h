// Images with boxes as samples of the task detect.
//
// Fields: "pixels" uint8, an image of "size" [2] int64 (height, width) pixels, packed [height,
// width, 3]; "original" [2] int64, its size in the file. In training also "boxes" [n, 4] float32,
// ragged: x1, y1, x2, y2 in pixels of the image; "truths" [n, 2] int64, ragged: the class and the
// index of the annotation; "draw" [3] int64: the sample, the epoch, and 1 if the image is mirrored.
//
// The image is resized so that it touches one of the limits data.scale (see resized_size()), and in
// training mirrored with the probability data.flip. Boxes are resized with it and cut at its
// border. Training batches hold images of one orientation: width > height, or not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/coco/coco_dataset.h"
#include "dtn/config/train_config.h"
#include "dtn/data/sample_source.h"

namespace dtn {

struct PixelSize {
  std::int64_t height = 0, width = 0;
  bool operator==(const PixelSize&) const = default;
};

// Returns the size of a resized image: with f = min(scale_long / long side, scale_short / short
// side), each side becomes int(side f + 0.5), and at least 1.
PixelSize resized_size(const PixelSize& original, const DataConfig& data);

// Returns the size padded to multiples of data.size_divisor.
PixelSize padded_size(const PixelSize& size, const DataConfig& data);

class DetectionSamples final : public SampleSource {
 public:
  // Training needs a CocoDataset; for an evaluation any images will do.
  DetectionSamples(std::shared_ptr<const Dataset> dataset, const ExperimentConfig& config,
                   Split split);

  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

  std::int64_t size() const override { return dataset_->size(); }
  const std::string& description() const override { return dataset_->description(); }
  std::string noun() const override { return "images"; }
  std::string sample_name(std::int64_t index) const override {
    return dataset_->sample_name(index);
  }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::string identity(std::int64_t index) const override;
  std::vector<std::uint8_t> groups() const override;
  std::vector<FieldSpec> host_fields() const override;
  std::unique_ptr<SampleSource::Workspace> make_workspace() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

 private:
  struct ImageWorkspace;

  const Image& decode(std::int64_t index, ImageWorkspace& workspace) const;
  void write_truths(std::int64_t index, const PixelSize& original, const PixelSize& size, bool flip,
                    FieldRow& row) const;

  std::shared_ptr<const Dataset> dataset_;
  const CocoDataset* truths_;  // the same; null: no truths
  DataConfig data_;
  bool training_;
};

}  // namespace dtn
