// Images and their corrupted copies as samples of the task translate.
//
// Fields: "input" and "target" [C, H, W] float32 in [0, 1]. One is the image of a data set, cropped
// and mirrored by PictureCrop; the other is the same after one corruption of data.corruptions.
// data.corrupted says which one. If the model reads a condition (condition_field()), also
// "style" int64, the position of the corruption in corruption_list(), or "style_image" [C, H, W]
// float32: another image of the split after the same corruption, with draws of its own.
//
// In training the corruption, its random numbers and the style image come from the key of the
// sample: (seed, epoch, sample). In an evaluation, the corruption of sample i is number i mod n,
// and random numbers depend on (seed, i), so checkpoints compare.
//
// Grey images are replicated to three channels, corrupted, and the first channel is kept. At other
// sizes than 224 x 224 some corruptions are not those of ImageNet-C; see
// apply_adapted_corruption().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "tasks/translate/corruption_list.h"
#include "tasks/translate/picture_crop.h"

namespace dtn {

class CorruptedSamples final : public SampleSource {
 public:
  // Throws ConfigError if the samples of the data set are not pixels, or if data.corruptions is
  // wrong.
  CorruptedSamples(std::shared_ptr<const Dataset> dataset, const ExperimentConfig& config,
                   Split split);

  std::int64_t size() const override { return dataset_->size(); }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return "images"; }
  std::string sample_name(std::int64_t index) const override {
    return dataset_->sample_name(index);
  }
  std::string identity(std::int64_t index) const override { return dataset_->item_name(index); }
  const Dataset* source_dataset() const override { return dataset_.get(); }
  std::vector<FieldSpec> host_fields() const override;
  std::unique_ptr<SampleSource::Workspace> make_workspace() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

  const std::vector<CorruptionCell>& cells() const { return cells_; }

 private:
  struct ImageWorkspace;
  struct Draw;

  Draw draw_sample(std::int64_t index, const SampleKey& key) const;
  std::int64_t draw_other(std::int64_t index, const SampleKey& key) const;
  // Loads and crops an image, and corrupts the crop.
  void load(std::int64_t index, const SampleKey& key, ImageWorkspace& workspace) const;
  void corrupt(const Draw& draw, ImageWorkspace& workspace) const;
  void write_style_image(std::int64_t index, const Draw& draw, FieldRow& row,
                         ImageWorkspace& workspace) const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<CorruptionCell> cells_;
  std::shared_ptr<const FrostTextures> frost_;  // null: no cell needs it
  std::uint64_t seed_;
  bool training_, corrupts_input_;
  Shape shape_;  // [C, H, W]
  std::optional<FieldSpec> condition_;
  PictureCrop crop_;
  std::string description_;
};

}  // namespace dtn
