// Small LeViTs, T2T-ViTs, ResNets and RegNets that contain every kind of part.
#pragma once

#include <vector>

#include "dtn/models/presets.h"
#include "tiny_vit.h"

namespace dtn::test {

// A model of the preset's family, with all options of the preset except sizes.
inline ModelConfig tiny_model(const char* preset, const char* name, ImageSize image_size) {
  ModelConfig c = preset_registry().at(preset).model;
  c.preset = name;
  c.image_size = image_size;
  c.channels = 2;
  c.num_classes = 7;
  return c;
}

// Two stages with grids of 3 x 2 and 2 x 1 tokens.
inline ModelConfig tiny_levit(const char* norm = "bn") {
  ModelConfig c = tiny_model("levit_128s", "levit", {48, 32});
  c.embed_dim = {32, 64};
  c.depth = {1, 2};
  c.num_heads = {1, 2};
  c.norm.type = norm;
  return c;
}

// The class token joins before the first block, or later for DTN.
inline ModelConfig tiny_t2t(const char* norm = "ln") {
  ModelConfig c = tiny_model("t2t_vit_t_14", "t2t", {32, 48});
  c.embed_dim = 16;
  c.depth = 2;
  c.num_heads = 2;
  c.norm.type = norm;
  if (c.norm.type != "ln") c.class_token_at = 1;
  return c;
}

// Image sides that no stride divides.
inline ModelConfig tiny_resnet(const char* norm = "bn") {
  ModelConfig c = tiny_model("resnet50", "resnet", {37, 27});
  c.embed_dim = {16, 24};
  c.depth = {2, 1};
  c.norm.type = norm;
  if (c.norm.type == "gn") c.norm.options = {{"groups", std::int64_t{2}}};
  return c;
}

inline ModelConfig tiny_regnet() {
  ModelConfig c = tiny_model("regnety_160", "regnet", {21, 30});
  c.embed_dim = {8, 12};
  c.depth = {2, 1};
  c.num_heads = {2, 3};
  return c;
}

// Each family with the normalizers for which it is designed.
inline std::vector<ModelConfig> convolutional_models() {
  ModelConfig one_head = tiny_levit();
  one_head.distilled = false;
  return {tiny_levit(),      tiny_levit("dtn"), tiny_levit("gn"), one_head,
          tiny_t2t(),        tiny_t2t("dtn"),   tiny_resnet(),    tiny_resnet("in"),
          tiny_resnet("gn"), tiny_resnet("sn"), tiny_regnet()};
}

}  // namespace dtn::test
