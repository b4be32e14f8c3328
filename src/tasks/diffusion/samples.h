// Noised images as samples of the task diffusion.
//
// Fields: "image" [C, H, W] float32 in [-1, 1], or the latents of a data set of tensors; "label"
// int64, where model.num_classes stands for no label; "timestep" int64; "noise" [C, H, W] float32
// from the standard normal distribution.
//
// Time step, noise and the labels that are dropped come from a counter-based generator. In training
// the key is (seed, epoch, sample), so threads, ranks and a resumed run do not change them. In an
// evaluation it is (seed, sample), and no label is dropped, so checkpoints compare. Fields that a
// data set has ready (Dataset::ready_fields()) are used instead: "timesteps" [N] int64, "noise" [N,
// C, H, W] float32 and "drop" [N] int64, 1 for a dropped label.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/sample/center_crop.h"
#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn {

class DiffusionSamples final : public SampleSource {
 public:
  // The images of config.data, prepared by center_crop(), and in training mirrored with the
  // probability augment.hflip. Throws ConfigError if the samples are sequences, or pixels for a
  // model of other than 1 or 3 channels. Throws DataError for labels above model.num_classes and
  // for ready fields that do not fit the model or the process.
  DiffusionSamples(std::shared_ptr<const Dataset> dataset, const ExperimentConfig& config,
                   Split split);

  std::int64_t size() const override { return dataset_->size(); }
  const std::string& description() const override { return dataset_->description(); }
  std::string noun() const override { return "images"; }
  std::string sample_name(std::int64_t index) const override {
    return dataset_->sample_name(index);
  }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::string identity(std::int64_t index) const override;
  const Dataset* source_dataset() const override { return dataset_.get(); }
  std::vector<FieldSpec> host_fields() const override;
  std::unique_ptr<SampleSource::Workspace> make_workspace() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

 private:
  struct ImageWorkspace;

  void check_labels() const;
  void check_ready_fields() const;
  void check_range(const char* field, std::int64_t end) const;
  void write_image(std::int64_t index, const SampleKey& key, std::span<float> out,
                   ImageWorkspace& workspace) const;
  const Image& decode(std::span<const std::byte> bytes, ImageWorkspace& workspace) const;
  void write_process(std::int64_t index, const SampleKey& key, FieldRow& row) const;

  std::shared_ptr<const Dataset> dataset_;
  std::uint64_t seed_;
  bool training_, fast_decode_;
  DecodeOptions decoding_;
  Shape image_shape_;  // [C, H, W]
  std::int64_t classes_, steps_;
  double hflip_, label_dropout_;
  bool hides_labels_;  // the model has an embedding for no label
  Resampling resampling_;
  std::vector<float> table_;  // [C, 256], see normalization_table()
};

}  // namespace dtn
