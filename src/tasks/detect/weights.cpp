// Loading of weights into a detector.
#include "dtn/models/weights.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "dtn/tasks/detect.h"
#include "dtn/tasks/registries.h"
#include "models/weights/key_prefixes.h"
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

// Replaces tensors of the pyramid and the heads that have another shape, such as those for other
// classes, by the values of the store.
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

// Loads a classification model, and copies what the backbone of a detector has of it.
std::vector<std::string> load_backbone(ParameterStore& store, ModelConfig model,
                                       const TensorFile& file, const std::string& source,
                                       const Registries& registries) {
  model.num_classes = 0;
  model.detector = {};
  Classifier classifier(model, 0, DType::kFloat32, kCpu, registries.models, registries.norms);
  const HeadOptions head{.why_unused = "a detector has heads of its own"};
  std::vector<std::string> notes = load_weights(classifier, file, source, head, registries.presets);
  NamedTensors all = named_values(store);
  std::string unused;
  for (const auto& [name, tensor] : named_values(classifier.parameters())) {
    const auto same =
        std::ranges::find(all, cat("backbone.", name), &NamedTensors::value_type::first);
    if (same == all.end()) {
      unused += cat(unused.empty() ? "" : ", ", name);
    } else {
      same->second = tensor;
    }
  }
  load_exact(store, all, source);
  if (!unused.empty()) notes.push_back(cat("not used by a detector: ", unused));
  notes.push_back("the pyramid and the heads of the detector start from random weights");
  return notes;
}

}  // namespace

std::vector<std::string> Detect::load_to_train(const std::string& file) {
  const TensorFile weights = read_safetensors(file);
  ParameterStore& store = detector_.parameters();
  if (!is_detector(weights.tensors)) {
    return load_backbone(store, config_.model, weights, file, registries_);
  }
  NamedTensors tensors = unwrapped(weights.tensors);
  const std::string kept = keep_other_heads(store, tensors);
  load_exact(store, tensors, file);
  if (kept.empty()) return {};
  return {cat("not loaded, because their shapes differ, as those for other classes do: ", kept)};
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
