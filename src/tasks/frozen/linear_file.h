// Files of linear classifiers.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

// A linear classifier of K classes and F features.
struct LinearClassifier {
  Tensor weight, bias;               // [K, F], [K]
  std::vector<std::string> names{};  // of the classes; empty: unknown

  // The tensors under the names linear.weight and linear.bias.
  NamedTensors named() const { return {{"linear.weight", weight}, {"linear.bias", bias}}; }
};

// Writes a classifier. The names of its classes, if they are known, go into the metadata.
void write_linear(const std::string& file, const LinearClassifier& classifier);

// Reads linear.weight and linear.bias, the names in DINO's files, also below prefixes of wrappers
// such as module. Throws DataError if there are other tensors, or if the shapes do not belong
// together.
LinearClassifier read_linear(const std::string& file);

}  // namespace dtn
