// The registry of data sets: for each name the config keys that it uses and a function that opens
// it. Config keys, errors and tests use it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/config/schemas.h"
#include "dtn/core/registry.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Mean and standard deviation of pixels in [0, 1], for colour images and for their grey version.
struct PixelStatistics {
  std::array<double, 3> mean, std;
  double gray_mean, gray_std;
};
// For data without known statistics: maps pixels to [-1, 1].
inline constexpr PixelStatistics kHalfStatistics{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, 0.5, 0.5};
// ImageNet's; the values for colour are torchvision's.
inline constexpr PixelStatistics kImageNetStatistics{
    {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, 0.459, 0.226};

// A kind of data set in the registry.
struct DatasetEntry {
  // Opens one split; `seed` is for synthetic data.
  using Open = std::function<std::unique_ptr<Dataset>(const DataConfig&, const ModelConfig&, Split,
                                                      std::uint64_t seed)>;
  DatasetSchema schema;
  // If the classes are matched by name later, model.num_classes is 0 and any number of classes is
  // accepted, unless the schema sets classes_of_model. Throws DataError that names the path, the
  // problem and a remedy.
  Open open;
  // For normalizing images, unless data.mean and data.std are set.
  PixelStatistics statistics = kImageNetStatistics;
  // Statistics that depend on the data; null: `statistics`.
  std::function<PixelStatistics(const DataConfig&)> statistics_of{};
  // Opens one split of images that may have no labels. Null: `open`.
  Open open_unlabelled{};
  // Opens one split for a task that makes several views of each image, and that needs no labels.
  // Null: `open_unlabelled`.
  Open open_for_views{};
  // Opens one split whose samples have any number of classes: with the field "labels", see
  // Dataset::ready_fields(). Null: the data set cannot have them.
  Open open_multilabel{};

  const std::string& name() const { return schema.name; }
};

// The available kinds of data sets.
using DatasetRegistry = Registry<DatasetEntry>;

// The data sets of the library.
const DatasetRegistry& dataset_registry();

}  // namespace dtn
