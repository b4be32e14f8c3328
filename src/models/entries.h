// Registry entries and presets, one function per model family.
#pragma once

#include <vector>

#include "dtn/models/backbone.h"

namespace dtn {

// ModelEntry::make of a family of class T.
template <class T>
std::unique_ptr<Backbone> make_backbone(const Scope& scope, const ModelConfig& config) {
  return std::make_unique<T>(scope, config);
}

ModelEntry vit_entry();
ModelEntry pvt_entry();
ModelEntry pvt_v2_entry();
ModelEntry swin_entry();
ModelEntry levit_entry();
ModelEntry t2t_vit_entry();
ModelEntry resnet_entry();
ModelEntry regnet_entry();
ModelEntry sequence_entry();
ModelEntry dit_entry();
ModelEntry unet_entry();

std::vector<PresetSchema> vit_presets();
std::vector<PresetSchema> pvt_presets();  // of both versions
std::vector<PresetSchema> swin_presets();
std::vector<PresetSchema> levit_presets();
std::vector<PresetSchema> t2t_vit_presets();
std::vector<PresetSchema> resnet_presets();
std::vector<PresetSchema> regnet_presets();
std::vector<PresetSchema> sequence_presets();
std::vector<PresetSchema> dit_presets();
std::vector<PresetSchema> unet_presets();
// Networks of timm that the family "vit" builds, with their public weights.
std::vector<PresetSchema> timm_presets();
// Networks of timm that resemble them, but that no family builds.
std::vector<UnsupportedNetworks> timm_unsupported();

}  // namespace dtn
