// Small models of every family but the vision transformers of tiny_vit.h, as small as they can be
// with every kind of part in them.
#pragma once

#include <vector>

#include "tiny_convolutional.h"
#include "tiny_stages.h"

namespace dtn::test {

// Each family with the normalizers that it is meant for.
inline std::vector<ModelConfig> tiny_models() {
  std::vector<ModelConfig> all = staged_models();
  for (const ModelConfig& c : convolutional_models()) all.push_back(c);
  return all;
}

// Whether the family skips branches at random.
inline bool drops_paths(const ModelConfig& c) {
  return c.family != "levit" && c.family != "resnet" && c.family != "regnet";
}

inline std::string title_of(const ModelConfig& c) {
  return cat(c.preset, ", ", c.norm.type, c.distilled ? ", distilled" : "");
}

}  // namespace dtn::test
