// The samples of the task translate.
//
// Every sample has the fields "input" [Ci, H, W] and "target" [Co, H, W] float32, and those that
// the model reads: that of condition_field(), and "map" if reads_map(). They come from
// CorruptedSamples for images with data.corruptions, PicturePairs for data.dataset: pairs,
// DrawnSamples for drawn, and TensorPairs for tensors; programs that need no real data take
// SyntheticPairs, with data.dataset: synthetic and no data.corruptions. Samples depend on the data
// set and their keys alone.
#pragma once

#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/dataset_registry.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Opens one split. Null for Split::kVal if the config has no validation split, see
// has_validation(). Throws ConfigError for translate_data_problem(), and DataError as the sources.
std::shared_ptr<const SampleSource> translate_source(const ExperimentConfig& config,
                                                     const DatasetRegistry& datasets, Split split);

}  // namespace dtn
