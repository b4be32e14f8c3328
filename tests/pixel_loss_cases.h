// Outputs and targets of image-to-image models for the tests of their loss.
#pragma once

#include "dtn/config/translate_config.h"
#include "dtn/ops/pixel_loss.h"
#include "op_runs.h"

namespace dtn::test {

struct PixelLossCase {
  Shape shape;
  TranslateConfig weights;

  Input output() const { return Input::activation(shape, 1); }
  Tensor target(DType dtype) const {
    return as(representable(random_tensor(shape, 2)), accumulator_of(dtype));
  }
  std::string name() const {
    return cat(to_string(shape), " l1 ", weights.l1, " l2 ", weights.l2, " charbonnier ",
               weights.charbonnier);
  }
};

// The last has more elements than one piece of the kernel.
inline const std::vector<PixelLossCase> kPixelLossCases{{{2, 3, 5, 4}, {1, 0, 0, 1e-3}},
                                                        {{3, 1, 4, 4}, {0, 1, 0, 1e-3}},
                                                        {{1, 3, 7, 3}, {0, 0, 1, 0.5}},
                                                        {{2, 3, 64, 60}, {0.25, 2, 0.5, 0.1}}};

inline Op fused_pixel_loss(const PixelLossCase& c) {
  return [c](Context& ctx, const std::vector<Variable>& v) {
    return ops::pixel_loss(ctx, v[0], c.target(v[0].dtype()), c.weights).loss;
  };
}
inline Op reference_pixel_loss(const PixelLossCase& c) {
  return [c](Context& ctx, const std::vector<Variable>& v) {
    return ops::reference::pixel_loss(ctx, v[0], c.target(v[0].dtype()), c.weights);
  };
}

}  // namespace dtn::test
