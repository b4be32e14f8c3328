// Small models, each with other image sizes that it can process.
#pragma once

#include <vector>

#include "tiny_models.h"

namespace dtn::test {

struct SizedModel {
  ModelConfig config;
  ImageSize other;
};

inline ModelConfig vit_with_norm(const char* name, NormConfig norm) {
  ModelConfig c = paper_vit();
  c.preset = name;
  c.norm = std::move(norm);
  return c;
}

// Vision transformers of 3 x 3 tokens. The other grids are not square, and one has a single row.
inline std::vector<SizedModel> sized_vits() {
  const auto dtn = [](const char* name, const char* option, const char* value) {
    return vit_with_norm(name, {.type = "dtn", .options = {{option, std::string(value)}}});
  };
  ModelConfig pooled =
      vit_with_norm("pooled", {.type = "dtn", .options = {{"pool", std::int64_t{2}}}});
  pooled.image_size = 20;
  std::vector<SizedModel> all = {{paper_vit(), {10, 20}},
                                 {paper_vit(), {5, 10}},
                                 {dtn("official", "variant", "official"), {20, 10}},
                                 {dtn("uniform", "position", "uniform"), {10, 20}},
                                 {dtn("banded", "position", "banded:3"), {10, 20}},
                                 {pooled, {10, 30}},
                                 {vit_with_norm("rms", {.type = "rms"}), {20, 25}},
                                 {vit_with_norm("bn", {.type = "bn"}), {10, 20}},
                                 {deit_vit(), {10, 20}},
                                 {mean_vit(), {20, 10}},
                                 {prefix_vit(), {10, 20}},
                                 {biased_vit(), {10, 20}},
                                 {wide_vit(), {15, 15}}};
  for (const ModelConfig& c : checkpoint_vits()) {
    if (c.preset == "dinov2" || c.preset == "late" || c.preset == "distilled") {
      all.push_back({c, {8, 16}});
    }
  }
  return all;
}

// The other families. Swin's other grids have the same windows, shifted ones in the last stage, or
// smaller ones.
inline std::vector<SizedModel> sized_families() {
  return {{tiny_pvt(), {24, 18}},
          {tiny_pvt("dtn"), {24, 18}},
          {tiny_pvt_with_positions(), {24, 18}},
          {tiny_pvt_v2("dtn"), {23, 16}},
          {tiny_swin("dtn"), {24, 24}},
          {tiny_swin(), {48, 48}},
          {tiny_swin("dtn"), {8, 8}},
          {tiny_t2t(), {16, 32}},
          {tiny_t2t("dtn"), {48, 32}},
          {tiny_resnet(), {18, 35}},
          {tiny_resnet("gn"), {5, 1}},
          {tiny_regnet(), {30, 12}}};
}

inline std::vector<SizedModel> sized_models() {
  std::vector<SizedModel> all = sized_vits();
  for (const SizedModel& m : sized_families()) all.push_back(m);
  return all;
}

}  // namespace dtn::test
