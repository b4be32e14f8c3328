// The table of data sets, by the name a config calls them: what a config may say of one, and how it
// is opened. Config keys, errors and tests read it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/config/schemas.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Mean and standard deviation of pixels in [0, 1], of colour images and of the same in grey.
struct PixelStatistics {
  std::array<double, 3> mean, std;
  double gray_mean, gray_std;
};
inline constexpr PixelStatistics kImageNetStatistics{
    {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, 0.459, 0.226};

struct DatasetRow {
  DatasetSchema schema;
  // Opens one split; `seed` is for data that is made up. Throws DataError that names the path, what
  // is wrong with it and what to do.
  std::function<std::unique_ptr<Dataset>(const DataConfig&, const ModelConfig&, Split,
                                         std::uint64_t seed)>
      open;
  // What images are normalized by unless data.mean and data.std say otherwise.
  PixelStatistics statistics = kImageNetStatistics;
};

// Those that come with the library, then those that were added.
std::span<const DatasetRow> dataset_registry();
std::span<const DatasetSchema> dataset_schemas();
// Null where there is none of that name.
const DatasetRow* find_dataset(const std::string& name);

// Adds a data set of a program's own. To be called before anything reads the table or a config;
// throws Error when the name is taken.
void add_dataset(DatasetRow row);

}  // namespace dtn
