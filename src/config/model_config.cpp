#include "dtn/config/model_config.h"

#include <algorithm>

#include "config/codec.h"
#include "config/presets.h"
#include "dtn/config/grid_keys.h"

namespace dtn {

int ModelConfig::stages() const {
  if (depth.is_list()) return static_cast<int>(depth.values().size());
  std::size_t longest = 1;
  for (const auto* each : {&embed_dim, &num_heads}) {
    longest = std::max(longest, each->values().size());
  }
  longest = std::max(longest, mlp_ratio.values().size());
  if (reduction) longest = std::max(longest, reduction->values().size());
  return static_cast<int>(longest);
}

int ModelConfig::blocks() const {
  int sum = 0;
  for (int stage = 0; stage < stages(); ++stage) sum += depth.at(stage);
  return sum;
}

double ModelConfig::drop_path_of(int block) const {
  const int last = blocks() - 1;
  const bool grows = drop_path_mode == DropPathMode::kLinear && last > 0;
  return grows ? drop_path * block / last : drop_path;
}

std::string to_string(const OptionValue& value) {
  const auto text = [](const auto& v) -> std::string {
    if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<std::int64_t>>) {
      return config::write_value(v);
    } else {
      return cat(std::boolalpha, v);
    }
  };
  return std::visit(text, value);
}

NormConfig NormConfig::at_stage(int stage) const {
  NormConfig result = *this;
  for (NormOption& option : result.options) {
    const auto* each = std::get_if<std::vector<std::int64_t>>(&option.value);
    if (each == nullptr) continue;
    DTN_CHECK(stage < static_cast<int>(each->size()), "model.norm.", option.key, " has ",
              each->size(), " values, and none for stage ", stage);
    // The value is copied first, because the assignment destroys the list.
    const std::int64_t one = (*each)[static_cast<std::size_t>(stage)];
    option.value = one;
  }
  return result;
}

namespace {

template <class T>
void read_key(const config::Node& root, const std::string& path, std::optional<T>& value) {
  if (const config::Node* node = root.value_at(path)) {
    config::read_value({*node, path, ""}, {.low = 1}, value);
  }
}

// Returns no keys for a preset that this version does not know.
GridKeys keys_of_preset(const config::Node* name, std::span<const PresetSchema> presets) {
  if (name == nullptr || !name->is_scalar()) return {};
  const PresetSchema* preset = config::find_preset(name->text, presets);
  if (preset == nullptr) return {};
  const ModelConfig& m = preset->model;
  return {.image_size = m.image_size, .patch_size = m.patch_size, .window = m.window};
}

}  // namespace

GridKeys grid_keys_of(const std::string& text, std::span<const PresetSchema> presets) {
  try {
    const config::Node root =
        config::parse_yaml(text, {std::make_shared<const std::string>("config"), 1, 1, 0});
    GridKeys keys = keys_of_preset(root.at("model.preset"), presets);
    read_key(root, "model.image_size", keys.image_size);
    read_key(root, "model.patch_size", keys.patch_size);
    read_key(root, "model.window", keys.window);
    read_key(root, "model.norm.pool", keys.norm_pool);
    read_key(root, "model.init_image_size", keys.init_image_size);
    return keys;
  } catch (const ConfigError&) {
    return {};
  }
}

}  // namespace dtn
