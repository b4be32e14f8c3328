#include "tasks/translate/pair_source.h"

#include "data/source/tensor_file.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "tasks/translate/corrupted_samples.h"
#include "tasks/translate/data_checks.h"
#include "tasks/translate/drawn_samples.h"
#include "tasks/translate/picture_pairs.h"
#include "tasks/translate/synthetic_pairs.h"
#include "tasks/translate/tensor_pairs.h"

namespace dtn {
namespace {

// Opens the images of a data set, whose classes and conditions do not matter.
std::shared_ptr<const Dataset> open_images(const ExperimentConfig& config,
                                           const DatasetRegistry& datasets, Split split) {
  DataConfig data = config.data;
  data.label_sets.clear();
  ModelConfig any = config.model;
  any.condition = {};
  if (!datasets.at(data.dataset).schema.classes_of_model) any.num_classes = 0;
  return open_unlabelled(data, any, split, config.seed, datasets);
}

}  // namespace

std::shared_ptr<const SampleSource> translate_source(const ExperimentConfig& config,
                                                     const DatasetRegistry& datasets, Split split) {
  const DataConfig& data = config.data;
  if (data.dataset == "synthetic" && data.corruptions.empty()) {
    return std::make_shared<SyntheticPairs>(config, split);
  }
  if (const auto problem = translate_data_problem(config)) throw ConfigError(problem->message);
  if (split == Split::kVal && !has_validation(config.data)) return nullptr;
  if (data.dataset == "pairs") return std::make_shared<PicturePairs>(config, split);
  if (data.dataset == "drawn") return std::make_shared<DrawnSamples>(config, split);
  if (data.dataset == "tensors") {
    return std::make_shared<TensorPairs>(tensor_file_of(data, split, "`input` and `target`"),
                                         config.model);
  }
  return std::make_shared<CorruptedSamples>(open_images(config, datasets, split), config, split);
}

}  // namespace dtn
