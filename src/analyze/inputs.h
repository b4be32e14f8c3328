// The images that models are shown: those of a file, or the first of an evaluation split, in batches
// of one size, as often as they are wanted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analyze/analysis.h"
#include "data/feed/open_split.h"
#include "dtn/tasks/task.h"

namespace dtn {

class AnalysisInputs {
 public:
  // Of float32 images [N, channels, H, W], and perhaps int64 labels [N], in a file. Throws DataError
  // where they do not fit the model.
  AnalysisInputs(const std::string& file, const ExperimentConfig&, const Registries&);
  // The first `count` of the evaluation split of the config's data set; fewer if it has fewer.
  AnalysisInputs(const Task&, const ExperimentConfig&, std::int64_t count, const Registries&);

  std::int64_t count() const { return count_; }
  // Whether images have labels below the number of classes.
  bool labelled() const { return labelled_; }
  std::int64_t largest_label() const { return largest_label_; }
  // Calls `work` with each batch in turn: "image", and "label" where there are some.
  void each_batch(const std::function<void(const Fields&)>& work);
  std::vector<Preview> previews();
  // What they are, for the report.
  nlohmann::ordered_json describe() const;

  static constexpr std::int64_t kBatch = 16;

 private:
  void look_at_labels();
  void each_batch_of_split(const std::function<void(const Fields&)>& work);

  ModelConfig model_;
  std::string name_;
  Fields file_;
  std::unique_ptr<OpenSplit> split_;  // null: the file's
  std::int64_t count_ = 0;
  bool labelled_ = false;
  std::int64_t largest_label_ = -1;
  std::vector<float> mean_, std_;  // what images were normalized by; empty: nobody knows
};

}  // namespace dtn
