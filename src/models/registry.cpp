#include "dtn/models/presets.h"
#include "models/entries.h"

namespace dtn {

const ModelRegistry& model_registry() {
  static const ModelRegistry entries(
      "model family",
      {vit_entry(), pvt_entry(), pvt_v2_entry(), swin_entry(), levit_entry(), t2t_vit_entry(),
       resnet_entry(), regnet_entry(), sequence_entry(), dit_entry(), unet_entry()});
  return entries;
}

const PresetRegistry& preset_registry() {
  static const PresetRegistry entries = [] {
    PresetRegistry all("model preset", {});
    for (const auto presets :
         {vit_presets, pvt_presets, swin_presets, levit_presets, t2t_vit_presets, resnet_presets,
          regnet_presets, sequence_presets, dit_presets, unet_presets, timm_presets}) {
      for (PresetSchema& preset : presets()) all.add(std::move(preset));
    }
    return all;
  }();
  return entries;
}

}  // namespace dtn
