#include "tasks/backbone_weights.h"

#include <algorithm>
#include <map>

#include "core/format.h"
#include "dtn/models/weights.h"
#include "models/weights/key_prefixes.h"

namespace dtn {
namespace {

constexpr std::string_view kBackbone = "backbone.", kHead = "head.";

// A network's tensors: backbone.* without that prefix, head.*, and the rest. If no name has the
// prefix backbone., all are the backbone.
struct NetworkTensors {
  NamedTensors backbone, head, rest;
};

NetworkTensors split_network(const NamedTensors& tensors) {
  NetworkTensors network;
  for (const auto& [key, tensor] : tensors) {
    const std::string_view name = without_wrappers(key);
    if (name.starts_with(kBackbone)) {
      network.backbone.emplace_back(name.substr(kBackbone.size()), tensor);
    } else {
      (name.starts_with(kHead) ? network.head : network.rest).emplace_back(name, tensor);
    }
  }
  if (network.backbone.empty()) return {tensors, {}, {}};
  return network;
}

// Returns the difference between the file's head and the store's; empty if they fit.
std::string head_problem(const ParameterStore& store, const NamedTensors& head) {
  std::map<std::string_view, const Shape*> missing;
  for (const Parameter& p : store.parameters()) {
    if (p.name.starts_with(kHead)) missing[p.name] = &p.shape;
  }
  for (const auto& [name, tensor] : head) {
    const auto found = missing.find(name);
    if (found == missing.end()) return cat("the model has no ", name);
    const Shape& shape = *found->second;
    missing.erase(found);
    if (tensor.shape() == shape) continue;
    return cat(name, " is ", to_string(tensor.shape()), ", but the model needs ", to_string(shape));
  }
  return missing.empty() ? "" : cat("it has no ", missing.begin()->first);
}

// Returns the store's values, with those of a backbone loaded into a model of its own.
NamedTensors with_backbone(ParameterStore& store, const ModelConfig& model, const TensorFile& file,
                           const std::string& source, const Registries& registries,
                           std::vector<std::string>& notes) {
  ModelConfig headless = model;
  headless.num_classes = 0;
  Classifier loaded(headless, 0, DType::kFloat32, kCpu, registries.models, registries.norms);
  notes = load_weights(loaded, file, source, {}, registries.presets);
  NamedTensors all = named_values(store);
  for (auto& [name, tensor] : named_values(loaded.parameters())) {
    const auto same =
        std::ranges::find(all, cat(kBackbone, name), &NamedTensors::value_type::first);
    DTN_CHECK(same != all.end(), "the backbone has no tensor ", name);
    same->second = tensor;
  }
  return all;
}

}  // namespace

std::string note_of_unused(const NamedTensors& tensors) {
  constexpr std::size_t kMaxNames = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(kMaxNames, tensors.size()); ++i) {
    names += cat(i ? ", " : "", tensors[i].first);
  }
  return cat(counted(tensors.size(), "tensors"), " not used (", names,
             tensors.size() > kMaxNames ? ", ...)" : ")");
}

LoadedNetwork load_network(ParameterStore& store, const ModelConfig& model, const NetworkFile& file,
                           const Registries& registries) {
  check_unambiguous(file.tensors, file.source, [&](const std::string& name) {
    return store.find(cat(kBackbone, name)) || store.find(name);
  });
  const NetworkTensors network = split_network(file.tensors);
  LoadedNetwork result;
  NamedTensors all = with_backbone(store, model, {network.backbone, file.metadata}, file.source,
                                   registries, result.notes);
  const std::string problem =
      network.head.empty() ? "the file has no head for it" : head_problem(store, network.head);
  result.has_head = problem.empty();
  if (result.has_head) {
    for (const auto& [name, tensor] : network.head) {
      std::ranges::find(all, name, &NamedTensors::value_type::first)->second = tensor;
    }
  } else {
    result.notes.push_back(cat("head: not loaded, because ", problem));
    if (!network.head.empty()) result.notes.push_back(note_of_unused(network.head));
  }
  if (!network.rest.empty()) result.notes.push_back(note_of_unused(network.rest));
  load_exact(store, all, file.source);
  return result;
}

}  // namespace dtn
