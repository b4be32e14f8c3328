#include "train/freeze.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "nn/name_pattern.h"

namespace dtn {

void freeze_parameters(const FreezeConfig& freeze, ParameterStore& store) {
  if (!freeze.any()) return;
  for (const std::string& pattern : freeze.patterns) check_pattern("train.freeze", pattern, store);
  const auto is_frozen = [&](const Parameter& p) {
    if (freeze.backbone) return !p.head;
    return std::ranges::any_of(
        freeze.patterns, [&](const std::string& pattern) { return matches_name(pattern, p.name); });
  };
  if (std::ranges::all_of(store.parameters(), is_frozen)) {
    throw ConfigError(
        freeze.backbone
            ? "train.freeze: backbone leaves no trainable parameter: the model has no head"
            : "train.freeze leaves no trainable parameter; freeze fewer parameters");
  }
  store.freeze(is_frozen, freeze.backbone);
}

std::string describe_frozen(const ParameterStore& store) {
  std::int64_t tensors = 0, elements = 0;
  for (const Parameter& p : store.parameters()) {
    if (!p.frozen) continue;
    ++tensors;
    elements += p.shape.numel();
  }
  if (tensors == 0) return "";
  return cat(tensors, " of ", store.parameters().size(), " tensors, ", elements, " of ",
             store.count(), " parameters");
}

}  // namespace dtn
