// Weights of LayerNorms for a model with another normalizer in their place: weight and bias go over,
// and what else the normalizer has stays as it starts.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "dtn/io/safetensors.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class NormTransfer {
 public:
  // Of the norms of blocks, ....norm1 and ....norm2, where the file has nothing but a LayerNorm's
  // weight and bias and the model has anything else: a file with tensors of that normalizer must
  // have all of them.
  NormTransfer(const NamedTensors& file, const ParameterStore& model);

  // A parameter or buffer of the model that stays at its initialisation.
  bool leaves(const std::string& name) const { return left_.contains(name); }
  // A tensor of the file that the model has no place for.
  bool skips(const std::string& name) const { return skipped_.contains(name); }
  // What has been done, in a line; empty: nothing.
  std::string note(const std::string& source) const;

 private:
  std::set<std::string> left_, skipped_;
  std::vector<std::string> norms_;  // in the order of the model
};

}  // namespace dtn
