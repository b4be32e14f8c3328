// The keys of a model that determine the sizes of its position tables.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "dtn/config/schemas.h"

namespace dtn {

// An unset key is unknown.
struct GridKeys {
  std::optional<ImageSize> image_size{};
  std::optional<int> patch_size{};
  std::optional<int> window{};
  std::optional<PerStage<int>> norm_pool{};    // model.norm.pool
  std::optional<ImageSize> init_image_size{};  // of the weights that initialized the model
};

// Reads the keys from a config embedded in a weights file. Missing keys come from its model.preset,
// one of `presets`, except norm_pool and init_image_size. The rest of the text is not checked.
// Returns no keys if the text is not the config of a model.
GridKeys grid_keys_of(const std::string& text, std::span<const PresetSchema> presets);

}  // namespace dtn
