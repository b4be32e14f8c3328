#include "config/presets.h"

#include <algorithm>

#include "config/codec.h"
#include "config/keys.h"

namespace dtn::config {
namespace {

std::string list_text(const std::array<double, 3>& numbers) {
  return write_value(std::vector<double>(numbers.begin(), numbers.end()));
}

std::string unknown_preset(const std::string& name, const ConfigSchemas& schemas) {
  std::vector<std::string> names;
  for (const PresetSchema& preset : schemas.presets) names.push_back(preset.name());
  return cat("unknown model preset '", shown(name), "'", did_you_mean(name, names, "."),
             " Presets: ", join(plain_presets(schemas)),
             ", and the architectures that dtn-info --models lists");
}

}  // namespace

const PresetSchema* find_preset(const std::string& name, std::span<const PresetSchema> presets) {
  const auto found = std::ranges::find(presets, name, &PresetSchema::name);
  return found == presets.end() ? nullptr : &*found;
}

ModelConfig read_preset(const Node& root, const ConfigSchemas& schemas) {
  const Node* chosen = root.at("model.preset");
  if (chosen == nullptr || chosen->is_null()) {
    fail(chosen ? chosen->where : root.where, "model.preset is not set; choose one of ",
         join(plain_presets(schemas)));
  }
  if (!chosen->is_scalar()) {
    const auto key = std::ranges::find(keys(), "model.preset", &Key::path);
    fail(Field{*chosen, key->path, key->doc}, "must be the name of a preset, not ", shown(*chosen));
  }
  if (const auto* preset = find_preset(chosen->text, schemas.presets)) return preset->model;
  const std::string reason = reason_against(chosen->text, schemas);
  fail(chosen->where, reason.empty() ? unknown_preset(chosen->text, schemas) : reason);
}

std::vector<std::string> plain_presets(const ConfigSchemas& schemas) {
  std::vector<std::string> names;
  for (const PresetSchema& preset : schemas.presets) {
    if (preset.releases.empty()) names.push_back(preset.name());
  }
  return names;
}

std::optional<PublicModel> find_public_model(const std::string& name,
                                             const ConfigSchemas& schemas) {
  for (const PresetSchema& preset : schemas.presets) {
    for (const ReleaseSchema& release : preset.releases) {
      const PublicModel model{&preset, &release};
      if (name == preset.name() || name == model.name()) return model;
    }
  }
  return {};
}

std::vector<std::string> public_names(const ConfigSchemas& schemas) {
  std::vector<std::string> names, full_names;
  for (const PresetSchema& preset : schemas.presets) {
    if (!preset.releases.empty()) names.push_back(preset.name());
    for (const ReleaseSchema& release : preset.releases) {
      full_names.push_back(PublicModel{&preset, &release}.name());
    }
  }
  names.insert(names.end(), full_names.begin(), full_names.end());
  return names;
}

std::string reason_against(const std::string& name, const ConfigSchemas& schemas) {
  for (const ModelSchema& family : schemas.models) {
    for (const UnsupportedNetworks& networks : family.unsupported) {
      if (name.find(networks.part) == std::string::npos) continue;
      return cat("'", shown(name), "' cannot be built here: ", networks.reason,
                 "; dtn-info --models lists the public models that can");
    }
  }
  return {};
}

std::string config_text(const PublicModel& model) {
  const ReleaseSchema& release = *model.release;
  const bool bicubic = release.interpolation == Interpolation::kBicubic;
  return cat("name: ", model.name(), "\nmodel:\n  preset: ", model.preset->name(),
             "\n  num_classes: ", release.num_classes, "\ndata:\n  mean: ", list_text(release.mean),
             "\n  std: ", list_text(release.std), "\n  crop_pct: ", write_value(release.crop_pct),
             "\n  interpolation: ", bicubic ? "bicubic" : "bilinear", "\n");
}

}  // namespace dtn::config
