// Loading of weights into a detector.
#include "dtn/models/weights.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "dtn/tasks/detect.h"
#include "models/weights/key_prefixes.h"
#include "tasks/backbone_weights.h"
#include "tasks/class_names.h"

namespace dtn {
namespace {

bool is_detector(const NamedTensors& tensors) {
  return std::ranges::any_of(tensors, [](const auto& named) {
    return without_wrappers(named.first).starts_with("neck.");
  });
}

// The tensors without the prefixes of wrappers.
NamedTensors unwrapped(const NamedTensors& tensors) {
  NamedTensors plain;
  for (const auto& [name, tensor] : tensors) {
    plain.emplace_back(std::string(without_wrappers(name)), tensor);
  }
  return plain;
}

// Replaces heads of another shape, such as those for other classes, by the values of the store.
// Returns their names.
std::string keep_other_heads(ParameterStore& store, NamedTensors& tensors) {
  std::string kept;
  const NamedTensors own = named_values(store);
  for (auto& [name, tensor] : tensors) {
    const auto same = std::ranges::find(own, name, &NamedTensors::value_type::first);
    const Parameter* parameter = store.find(name);
    if (same == own.end() || !parameter || !parameter->head) continue;
    if (same->second.shape() == tensor.shape()) continue;
    kept += cat(kept.empty() ? "" : ", ", name);
    tensor = same->second;
  }
  return kept;
}

}  // namespace

std::vector<std::string> Detect::load_to_train(const std::string& file) {
  const TensorFile weights = read_safetensors(file);
  ParameterStore& store = detector_.parameters();
  if (!is_detector(weights.tensors)) {
    LoadedNetwork loaded =
        load_network(store, config_.model, {weights.tensors, weights.metadata, file}, registries_);
    return loaded.notes;
  }
  NamedTensors tensors = unwrapped(weights.tensors);
  const std::string kept = keep_other_heads(store, tensors);
  load_exact(store, tensors, file);
  if (kept.empty()) return {};
  return {cat("not loaded, because their shapes belong to other classes: ", kept)};
}

std::vector<std::string> Detect::load_weights(const std::string& file, WeightsUse use) {
  if (use == WeightsUse::kTraining) return load_to_train(file);
  const TensorFile weights = read_safetensors(file);
  load_exact(detector_.parameters(), unwrapped(weights.tensors), file);
  learnt_ = ClassList{cat("the model in ", file),
                      stored_class_names(weights.metadata, config_.model.num_classes),
                      config_.model.num_classes};
  return {};
}

}  // namespace dtn
