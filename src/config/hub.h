// timm models in the layout of the Hugging Face hub: a folder with model.safetensors and a
// config.json, whose `architecture` and `pretrained_cfg.tag` name a public model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "config/document.h"
#include "dtn/config/schemas.h"

namespace dtn::config {

inline constexpr const char* kHubConfig = "config.json";
// Maximum size in bytes: enough for the class names of ImageNet-21k.
inline constexpr std::size_t kMaxHubConfig = 4 << 20;

bool is_hub_config(const std::filesystem::path& file);

// Returns the keys of the public model that the file names, overridden by the file's num_classes,
// global_pool, model_args and pretrained_cfg. An unknown tag is read as the architecture's first
// tag. Throws ConfigError with the name of the file and the field.
Node read_hub_config(const std::filesystem::path& file, const ConfigSchemas& schemas);
// Does the same with a text; `file` is its name in errors.
Node parse_hub_config(const std::string& text, const std::string& file,
                      const ConfigSchemas& schemas);

}  // namespace dtn::config
