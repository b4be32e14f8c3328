// Small models of every family except the vision transformers of tiny_vit.h. They are as small as
// possible and contain every kind of part.
#pragma once

#include <vector>

#include "tiny_convolutional.h"
#include "tiny_stages.h"

namespace dtn::test {

// Each family with the normalizers for which it is designed.
inline std::vector<ModelConfig> tiny_models() {
  std::vector<ModelConfig> all = staged_models();
  for (const ModelConfig& c : convolutional_models()) all.push_back(c);
  return all;
}

// True if the family has drop path.
inline bool drops_paths(const ModelConfig& c) {
  return c.family != "levit" && c.family != "resnet" && c.family != "regnet";
}

inline std::string title_of(const ModelConfig& c) {
  return cat(c.preset, ", ", c.norm.type, c.distilled ? ", distilled" : "");
}

}  // namespace dtn::test
