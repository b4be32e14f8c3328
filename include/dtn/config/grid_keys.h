// The keys of a model that the sizes of its position tables follow from.
#pragma once

#include <optional>
#include <string>

#include "dtn/config/model_config.h"

namespace dtn {

// An unset key is not known.
struct GridKeys {
  std::optional<ImageSize> image_size{};
  std::optional<int> patch_size{};
  std::optional<int> window{};
  std::optional<PerStage<int>> norm_pool{};    // model.norm.pool
  std::optional<ImageSize> init_image_size{};  // of the weights that the model started from
};

// Reads the keys from a config that a file of weights carries. Keys that the text leaves out come
// from its model.preset, except norm_pool and init_image_size. Nothing else in the text is checked.
// Returns no keys if the text is no config of a model.
GridKeys grid_keys_of(const std::string& text);

}  // namespace dtn
