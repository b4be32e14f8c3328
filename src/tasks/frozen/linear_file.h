// Files of linear classifiers.
#pragma once

#include <string>

#include "dtn/io/safetensors.h"

namespace dtn {

// A linear classifier of K classes and F features.
struct LinearClassifier {
  Tensor weight, bias;  // [K, F], [K]

  // The tensors under the names linear.weight and linear.bias.
  NamedTensors named() const { return {{"linear.weight", weight}, {"linear.bias", bias}}; }
};

// Reads linear.weight and linear.bias, the names in DINO's files, also below prefixes of wrappers
// such as module. Throws DataError if there are other tensors, or if the shapes do not belong
// together.
LinearClassifier read_linear(const std::string& file);

}  // namespace dtn
