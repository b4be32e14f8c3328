// Weights files of models whose parameters are named backbone.* and head.*.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// The tensors of one network, and the name of their file for messages.
struct NetworkFile {
  const NamedTensors& tensors;
  const StringMap& metadata;
  const std::string& source;
};

// The result of load_network().
struct LoadedNetwork {
  bool has_head = false;           // the head comes from the file
  std::vector<std::string> notes;  // for the user
};

// A note on tensors of a file that the model does not use; it names the first ones.
std::string note_of_unused(const NamedTensors& tensors);

// Loads the weights of a network into a store of backbone.* and head.*. The tensors are those of a
// backbone with or without the prefix backbone., which load_weights() adapts to `model`. With that
// prefix, head.* beside it is the network's head. The store's head keeps its values if the file has
// no head, or one with other names or shapes. Throws DataError that names the source and the
// tensor.
LoadedNetwork load_network(ParameterStore& store, const ModelConfig& model, const NetworkFile& file,
                           const Registries& registries);

}  // namespace dtn
