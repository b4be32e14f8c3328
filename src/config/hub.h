// Models of timm's as the Hugging Face hub holds them: a folder with model.safetensors and, beside
// it, a config.json whose `architecture` and `pretrained_cfg.tag` name a public model.
#pragma once

#include <filesystem>
#include <string>

#include "config/document.h"

namespace dtn::config {

inline constexpr const char* kHubConfig = "config.json";

bool is_hub_config(const std::filesystem::path& file);

// The keys that the file stands for: the public model's, and over them what the file says otherwise
// in num_classes, global_pool, model_args and pretrained_cfg. A tag that is not known counts as the
// architecture's first. Throws ConfigError naming the file and the field.
Node read_hub_config(const std::filesystem::path& file);
// The same of its text; `file` names it in errors.
Node parse_hub_config(const std::string& text, const std::string& file);

}  // namespace dtn::config
