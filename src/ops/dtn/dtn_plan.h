// Strategies that compute DTN's cross-token statistics: one short pass per axis of the grid if the
// position matrix P is a product of two, windows along a grid of one row, or the full P.
#pragma once

#include <memory>

#include "dtn/autograd/variable.h"
#include "kernels/dtn/dtn_dense.h"
#include "kernels/dtn/dtn_dense_positions.h"
#include "kernels/dtn_sequence/dtn_sequence.h"

namespace dtn::ops {

class DtnPlan {
 public:
  virtual ~DtnPlan() = default;

  // The arguments hold everything but positions, and are the same for every plan.
  virtual void forward(DtnNormForward args) const = 0;
  // `dposition` takes the gradient of the position parameter; null: it is not needed.
  virtual void backward(DtnNormBackward args, const GradSink& dposition) const = 0;
};

// Applies P, made from the position weights [H, 3], axis by axis.
std::shared_ptr<const DtnPlan> separable_dtn_plan(Tensor weights);
// Applies P, made from the same weights, through its windows on a grid of one row. lengths [B]
// int64: number of valid tokens of each sample, before its pads; undefined: all are valid. A run
// that only counts operations assumes windows for this a_d.
std::shared_ptr<const DtnPlan> line_dtn_plan(Tensor weights, Tensor lengths, double a_d);
// Applies the full P that `positions` describes, without its pointers. `parameter` is [H, 3], or a
// table [H, T', T']; undefined if the kind of positions has no parameter.
std::shared_ptr<const DtnPlan> dense_dtn_plan(const DtnDensePositions& positions, Tensor parameter,
                                              Device device);

}  // namespace dtn::ops
