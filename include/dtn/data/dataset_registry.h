// The table of data sets, by the name a config calls them: what a config may say of one, and how it
// is opened. Config keys, errors and tests read it.
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

// Mean and standard deviation of pixels in [0, 1], of colour images and of the same in grey.
struct PixelStatistics {
  std::array<double, 3> mean, std;
  double gray_mean, gray_std;
};
// Of data that nothing is known of: pixels come to lie in [-1, 1].
inline constexpr PixelStatistics kHalfStatistics{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, 0.5, 0.5};
inline constexpr PixelStatistics kImageNetStatistics{
    {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, 0.459, 0.226};

struct DatasetRow {
  DatasetSchema schema;
  // Opens one split; `seed` is for data that is made up. Where the classes are matched by name
  // afterwards, model.num_classes is 0 and any number of classes will do, unless the schema says
  // classes_of_model. Throws DataError that names the path, what is wrong with it and what to do.
  std::function<std::unique_ptr<Dataset>(const DataConfig&, const ModelConfig&, Split,
                                         std::uint64_t seed)>
      open;
  // What images are normalized by unless data.mean and data.std say otherwise.
  PixelStatistics statistics = kImageNetStatistics;
  // The same where it depends on which data it is; null: it does not.
  std::function<PixelStatistics(const DataConfig&)> statistics_of{};

  const std::string& name() const { return schema.name; }
};

class DatasetRegistry : public Registry<DatasetRow> {
 public:
  explicit DatasetRegistry(std::vector<DatasetRow> rows) : Registry("data set", std::move(rows)) {}
};

// Ours.
const DatasetRegistry& dataset_registry();

}  // namespace dtn
