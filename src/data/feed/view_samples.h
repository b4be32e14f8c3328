// Several views of each image as samples of a task, each view on its own random draw (see
// data/sample/views.h). The image is read and decoded once.
//
// Device fields: for each set of views its field [views, channels, height, width] float32 and, if
// requested, "label" [all views] int64. Host fields: the same or, in a quarter of the bytes,
// "<field>.pixels" [views, height, width, channels] uint8, not yet mirrored, and "<field>.flips"
// [views] uint8, from which a device makes the same views to the last bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/sample/stage_clock.h"
#include "data/sample/views.h"
#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/data/dataset.h"
#include "dtn/data/registries.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Views of one size.
struct ViewSet {
  std::string field;
  int views = 0;  // per image
  ImageSize size;
  std::vector<ViewAugment> augments{};  // [views]
};

struct ViewSamplesOptions {
  // Adds the field "label", the label of the image for each of its views. An image without a class
  // is a class of its own.
  bool labels = false;
  // Carry pixels, for a device that makes views of them. A data set without pixels gives views.
  bool raw_pixels = false;
};

class ViewSamples final : public SampleSource {
 public:
  // Takes the channels from `model`. Throws ConfigError for bad values, and DataError if the data
  // set has neither pixels nor these views in Dataset::ready_fields().
  ViewSamples(std::shared_ptr<const Dataset> dataset, std::vector<ViewSet> sets,
              const DataConfig& data, const ModelConfig& model, const ViewSamplesOptions& options,
              const DataRegistries& registries = data_registries());

  const Dataset& dataset() const { return *dataset_; }
  const std::vector<ViewSet>& sets() const { return sets_; }
  // Number of views of an image.
  int views() const;
  bool carries_pixels() const { return raw_; }

  std::int64_t size() const override { return dataset_->size(); }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return "images"; }
  std::string sample_name(std::int64_t index) const override {
    return dataset_->sample_name(index);
  }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::string identity(std::int64_t index) const override;
  const Dataset* source_dataset() const override { return dataset_.get(); }
  std::vector<FieldSpec> host_fields() const override;
  std::vector<FieldSpec> device_fields() const override;
  std::unique_ptr<SampleSource::Workspace> make_workspace() const override {
    return make_timed_workspace(nullptr);
  }
  // Makes a workspace with which make() adds the time of its stages to `stages`, if not null.
  std::unique_ptr<SampleSource::Workspace> make_timed_workspace(StageSeconds* stages) const;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;
  std::unique_ptr<BatchFinisher> make_finisher(Device device) const override;

 private:
  struct ViewWorkspace;

  void copy_ready(std::int64_t index, FieldRow& row) const;
  std::vector<ViewDraw>& draw_all(int width, int height, const SampleKey& key,
                                  ViewWorkspace& ws) const;
  DecodedPart decode(const Sample& sample, const SampleKey& key, ViewWorkspace& ws) const;
  void write_views(const DecodedPart& part, const SampleKey& key, FieldRow& row,
                   ViewWorkspace& ws) const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<ViewSet> sets_;
  int channels_;
  TrainInterpolation interpolation_;
  Resample resample_;
  DecodeOptions decoding_;
  bool fast_decode_, labels_, raw_;
  std::vector<float> table_;  // see normalization_table()
  std::string description_;
};

// Returns `global`, 2 views of the model's image size, and `local`, dino.local_crops views of
// dino.local_size. Without local views there is no field `local`. Uses the values of
// config.augment. Throws ConfigError if its preset makes no views.
std::shared_ptr<const SampleSource> dino_samples_of(
    std::shared_ptr<const Dataset> dataset, const ExperimentConfig& config, Device device,
    const DataRegistries& registries = data_registries());
// Returns `views`, supcon.views views of the model's image size, and `label` [V].
std::shared_ptr<const SampleSource> supcon_samples_of(
    std::shared_ptr<const Dataset> dataset, const ExperimentConfig& config, Device device,
    const DataRegistries& registries = data_registries());

// The same for the training images of config.data; see open_for_views() in dtn/data/datasets.h.
std::shared_ptr<const SampleSource> dino_samples_of(
    const ExperimentConfig& config, Device device,
    const DataRegistries& registries = data_registries());
std::shared_ptr<const SampleSource> supcon_samples_of(
    const ExperimentConfig& config, Device device,
    const DataRegistries& registries = data_registries());

// Returns true if the training samples of the config are several views of each image: for the tasks
// dino and supcon, and for any task with a preset that makes views.
bool trains_on_views(const ExperimentConfig& config);
// Returns the training images of config.data in the views of the task dino or supcon, or for other
// tasks in those of augment.preset. Throws ConfigError if the preset makes none.
std::shared_ptr<const ViewSamples> open_view_samples(
    const ExperimentConfig& config, Device device,
    const DataRegistries& registries = data_registries());

}  // namespace dtn
