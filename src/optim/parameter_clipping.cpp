#include "optim/parameter_clipping.h"

#include "kernels/optimizer/parameter_clip.h"

namespace dtn {
namespace {

std::vector<std::pair<std::int64_t, std::int64_t>> trained_tensors(const ParameterStore& store) {
  std::vector<std::pair<std::int64_t, std::int64_t>> tensors;
  for (const Parameter& p : store.parameters()) {
    if (!p.frozen) tensors.emplace_back(p.offset, p.offset + p.shape.numel());
  }
  return tensors;
}

}  // namespace

ParameterClipping::ParameterClipping(ParameterStore& store, double clip)
    : store_(store), clip_(clip), tensors_(trained_tensors(store), store.device()) {}

void ParameterClipping::clip(double scale) {
  run_on(store_.device(), ParameterClip{static_cast<float*>(store_.gradients().raw()),
                                        tensors_.chunks(), clip_, scale});
}

}  // namespace dtn
