// Files of pictures in pairs as samples of the task translate: <root>/<split>/A and
// <root>/<split>/B with pictures of equal names, or, with data.side_by_side, <root>/<split> with
// pictures whose left half is A and whose right half is B.
//
// Fields: "input" [Ci, H, W] and "target" [Co, H, W] float32 in [0, 1]: A and B, or B and A with
// data.direction b_to_a. PictureCrop crops and mirrors both alike.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/data/sample_source.h"
#include "tasks/translate/picture_crop.h"

namespace dtn {

class PicturePairs final : public SampleSource {
 public:
  // Lists the pictures of data.train or data.val below data.root, and reads the first pair's sizes.
  // Throws DataError if a folder is missing or empty, and for a picture without partner.
  PicturePairs(const ExperimentConfig& config, Split split);

  std::int64_t size() const override { return static_cast<std::int64_t>(names_.size()); }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return "pairs"; }
  // The file of A.
  std::string sample_name(std::int64_t index) const override;
  std::string identity(std::int64_t index) const override { return name(index); }
  std::vector<FieldSpec> host_fields() const override;
  std::unique_ptr<SampleSource::Workspace> make_workspace() const override;
  // Throws DataError if a picture is damaged, if the two have different sizes, or if a picture of
  // two halves has an odd width.
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

 private:
  struct PairWorkspace;

  const std::string& name(std::int64_t index) const {
    return names_[static_cast<std::size_t>(index)];
  }
  // The file of one side, 'A' or 'B'.
  std::string file_of(char side, std::int64_t index) const;
  void list_pairs();
  void check_first() const;
  void load_files(std::int64_t index, const SampleKey& key, PairWorkspace& workspace) const;
  void load_halves(std::int64_t index, const SampleKey& key, PairWorkspace& workspace) const;

  std::filesystem::path folder_;  // of the split
  bool side_by_side_;
  char input_side_, target_side_;   // 'A' or 'B'
  std::vector<std::string> names_;  // below A, or below folder_
  Shape input_shape_, target_shape_;
  PictureCrop input_crop_, target_crop_;
  std::string description_;
};

}  // namespace dtn
