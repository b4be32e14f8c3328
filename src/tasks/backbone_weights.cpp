#include "tasks/backbone_weights.h"

#include <algorithm>

#include "dtn/models/weights.h"

namespace dtn {
namespace {

constexpr std::string_view kBackbone = "backbone.";

bool has_prefix(const NamedTensors& tensors, std::string_view prefix) {
  return std::ranges::any_of(tensors,
                             [&](const auto& named) { return named.first.starts_with(prefix); });
}

}  // namespace

std::vector<std::string> load_backbone_or_all(ParameterStore& store, const ModelConfig& model,
                                              const TensorFile& file, const std::string& source,
                                              const Registries& registries) {
  if (has_prefix(file.tensors, kBackbone) && has_prefix(file.tensors, "head.")) {
    load_exact(store, file.tensors, source);
    return {};
  }
  ModelConfig headless = model;
  headless.num_classes = 0;
  Classifier loaded(headless, 0, DType::kFloat32, kCpu, registries.models, registries.norms);
  std::vector<std::string> notes = load_weights(loaded, file, source, {}, registries.presets);
  NamedTensors all = named_values(store);
  for (auto& [name, tensor] : named_values(loaded.parameters())) {
    const auto same =
        std::ranges::find(all, cat(kBackbone, name), &NamedTensors::value_type::first);
    DTN_CHECK(same != all.end(), "the backbone has no tensor ", name);
    same->second = tensor;
  }
  load_exact(store, all, source);
  notes.push_back("head: initialized randomly, because the file holds a backbone alone");
  return notes;
}

}  // namespace dtn
