#include "optim/adaptive_clipping.h"

#include "kernels/optimizer/adaptive_clip.h"

namespace dtn {

AdaptiveClipping::AdaptiveClipping(ParameterStore& store, double factor, bool with_head)
    : store_(store), factor_(factor) {
  static_assert(sizeof(GradientUnit) == 2 * sizeof(std::int64_t));
  std::vector<std::int64_t> units;
  for (const Parameter& p : store.parameters()) {
    if ((p.head && !with_head) || p.frozen) continue;
    const std::int64_t rows = p.shape.rank() > 1 ? p.shape[0] : 1;
    const std::int64_t row = p.shape.numel() / rows;
    for (std::int64_t r = 0; r < rows; ++r) {
      units.insert(units.end(), {p.offset + r * row, p.offset + (r + 1) * row});
    }
  }
  units_ = Tensor::from(units, {static_cast<std::int64_t>(units.size()) / 2, 2}).to(store.device());
}

void AdaptiveClipping::clip(double scale) {
  run_on(store_.device(),
         AdaptiveClip{static_cast<float*>(store_.gradients().raw()),
                      static_cast<const float*>(store_.values().raw()), units_.dim(0),
                      static_cast<const GradientUnit*>(units_.raw()), factor_, scale});
}

}  // namespace dtn
