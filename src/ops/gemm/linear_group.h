// Linear layers of equal size with one input, as one product. A model whose blocks read the same
// condition computes the modulations of all blocks with it:
//     y_i = x W_i^T + b_i
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// The outputs of all layers. x [R, in], weights [out, in] and biases [out] of every layer, all in
// the type of x (float32 or float64). The product reads the weights where they are if they follow
// one another in memory, as parameters do that are added to a store one after the other and whose
// size is a multiple of its alignment; else it copies them.
//
// The gradient of x is one product too. The weights and biases of a layer get their gradients when
// the backward pass reaches part(), so they are complete as early as those of the layer's block.
class LinearGroup {
 public:
  LinearGroup(Context&, const Variable& x, std::vector<Variable> weights,
              std::vector<Variable> biases);

  // The outputs of layer i, cut into columns: [R, widths[k]] each. The widths add up to `out`. Call
  // it once for each layer.
  template <std::size_t n>
  std::array<Variable, n> part(Context&, std::size_t i,
                               const std::array<std::int64_t, n>& widths) const;

 private:
  Variable x_, all_;  // [R, in], [R, layers out]
  std::vector<Variable> weights_, biases_;
};

}  // namespace dtn::ops
