// Weights files of models whose parameters are named backbone.* and head.*.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Loads a file with backbone.* and head.* into a store of these names. Any other file must hold the
// weights of a model like `model`, which become backbone.*; the head then keeps its values. Returns
// notes for the user. Throws DataError that names `source` and the tensor.
std::vector<std::string> load_backbone_or_all(ParameterStore& store, const ModelConfig& model,
                                              const TensorFile& file, const std::string& source,
                                              const Registries& registries);

}  // namespace dtn
