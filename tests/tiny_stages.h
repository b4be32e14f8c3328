// Small models of several stages on grids that are not square; they contain every kind of part.
#pragma once

#include <vector>

#include "dtn/models/presets.h"
#include "tiny_vit.h"

namespace dtn::test {

// A model of two stages of the preset's family, with all options of the preset except sizes.
inline ModelConfig two_stages(const char* preset, const char* name, ImageSize image_size,
                              const char* norm) {
  ModelConfig c = preset_registry().at(preset).model;
  c.preset = name;
  c.image_size = image_size;
  c.channels = 2;
  c.num_classes = 7;
  c.embed_dim = {8, 12};
  c.depth = {2, 2};
  c.num_heads = {2, 3};
  c.mlp_ratio = {2, 3};
  c.norm_pool = {2, 1};
  c.norm.type = norm;
  return c;
}

// Grids of 10 x 6 and 5 x 3, from images whose sides the strides do not divide. The keys are 2 x 1
// cells, with rows and columns left over.
inline ModelConfig tiny_pvt(const char* norm = "ln") {
  ModelConfig c = two_stages("pvt_tiny", "pvt", {43, 26}, norm);
  c.reduction = PerStage<int>{4, 1};
  return c;
}

// With the positional bias in the attention of the first stage.
inline ModelConfig tiny_pvt_with_positions() {
  ModelConfig c = tiny_pvt();
  c.preset = "pvt with positions";
  c.mhsa_position = true;
  return c;
}

// The same grids, with sides rounded up.
inline ModelConfig tiny_pvt_v2(const char* norm = "ln") {
  ModelConfig c = two_stages("pvt_v2_b3", "pvt_v2", {39, 23}, norm);
  c.reduction = PerStage<int>{4, 1};
  return c;
}

// Grids of 6 x 12 with 3 x 3 windows shifted by 1, and of 3 x 6 with unshifted windows.
inline ModelConfig tiny_swin(const char* norm = "ln") {
  ModelConfig c = two_stages("swin_t", "swin", {24, 48}, norm);
  c.window = 3;
  return c;
}

// Each family with LayerNorm, with DTN, and with BatchNorm or GroupNorm.
inline std::vector<ModelConfig> staged_models() {
  return {tiny_pvt(),       tiny_pvt("dtn"),    tiny_pvt("bn"),    tiny_pvt_with_positions(),
          tiny_pvt_v2(),    tiny_pvt_v2("dtn"), tiny_pvt_v2("gn"), tiny_swin(),
          tiny_swin("dtn"), tiny_swin("bn")};
}

}  // namespace dtn::test
