// Loads LayerNorm weights into a model with another normalizer in its place. Weight and bias are
// copied; the other parameters and buffers of the normalizer keep their initialisation. Without
// weight and bias in the model (norm.affine: false), those of the file are not used.
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
  // Transfers the block norms (....norm1 and ....norm2) for which the file has only a LayerNorm's
  // weight and bias, and the model has anything else. A file with other tensors of the normalizer
  // must have all of them.
  NormTransfer(const NamedTensors& file, const ParameterStore& model);

  // Returns true if a parameter or buffer of the model keeps its initialisation.
  bool leaves(const std::string& name) const { return left_.contains(name); }
  // Returns true if the model has no place for a tensor of the file.
  bool skips(const std::string& name) const { return skipped_.contains(name); }
  // Returns a summary in one line; empty if nothing is transferred.
  std::string note(const std::string& source) const;

 private:
  using Shapes = std::map<std::string, Shape>;  // by the name within the norm

  static bool is_layer_norm(const Shapes& tensors);
  // Transfers one norm.
  void transfer(const std::string& norm, const Shapes& from, const Shapes& to);
  void add_bare_norms(const std::map<std::string, Shapes>& from,
                      const std::map<std::string, Shapes>& to, const ParameterStore& model);

  std::set<std::string> left_, skipped_;
  std::vector<std::string> norms_;  // in the order of the model
};

}  // namespace dtn
