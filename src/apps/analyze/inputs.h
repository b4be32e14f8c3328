// Input images of an analysis: those of a file, or images drawn from an evaluation split. They can
// be read several times, in batches of one size.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/analyze/analysis.h"
#include "apps/analyze/token_moments.h"
#include "data/feed/open_split.h"
#include "dtn/tasks/task.h"

namespace dtn {

class AnalysisInputs {
 public:
  // Reads float32 images [N, channels, H, W], and optional int64 labels [N], from a file; for an
  // image-to-image model the fields that TensorPairs reads. Throws DataError if they do not fit the
  // model.
  AnalysisInputs(const std::string& file, const ExperimentConfig&, const Registries&);
  // Draws `count` images of the evaluation split of the config's data set, evenly over its classes
  // (see draw_over_classes.h), or takes all of them if it has fewer. Reads no other image. Damaged
  // images are left out.
  AnalysisInputs(const Task&, const ExperimentConfig&, std::int64_t count, std::uint64_t seed,
                 const Registries&);

  std::int64_t count() const { return count_; }
  // Returns true if the images have labels.
  bool labelled() const { return labelled_; }
  std::int64_t largest_label() const { return largest_label_; }
  // Calls `work` with each batch in turn: the fields that the model reads; and "label" if there are
  // labels, or "target" for an image-to-image model.
  void each_batch(const std::function<void(const Fields&)>& work);
  // Grey values and gradients of the images of a batch.
  ImageTones tones(const Fields& batch) const;
  std::vector<Preview> previews();
  // Describes the inputs for the report.
  nlohmann::ordered_json describe() const;

  static constexpr std::int64_t kBatch = 16;

 private:
  // Images drawn from a split.
  struct Draw {
    std::int64_t from = 0;  // images of the split
    std::uint64_t seed = 0;
    std::int64_t classes = 0;  // different classes among the drawn images; 0: unknown
  };

  void look_at_labels();
  void take_unit_pixels();  // of an image-to-image model, in [0, 1]
  void each_batch_of_split(const std::function<void(const Fields&)>& work);

  ModelConfig model_;
  const char* image_field_;
  std::string name_;
  Fields file_;
  std::unique_ptr<OpenSplit> split_;  // of the drawn images, or of pairs; null: images of file_
  std::optional<Draw> draw_;          // unset: images of the file
  std::int64_t count_ = 0;
  bool labelled_ = false;
  std::int64_t largest_label_ = -1;
  std::vector<float> mean_, std_;  // normalization of the images; empty: unknown
};

}  // namespace dtn
