// How the statistics across tokens of DTN are had: by one short pass for each axis of the grid where
// the position matrix P is a product of two, through windows along a line, or with all of P.
#pragma once

#include <memory>

#include "dtn/autograd/variable.h"
#include "kernels/dtn/dtn_dense.h"
#include "kernels/dtn/dtn_dense_positions.h"
#include "kernels/dtn_line/dtn_line.h"

namespace dtn {

class DtnPlan {
 public:
  virtual ~DtnPlan() = default;

  // The arguments come with everything but positions, and are the same for every plan.
  virtual void forward(DtnNormForward args) const = 0;
  // `dposition` takes the gradient of the position parameter; null: nobody wants it.
  virtual void backward(DtnNormBackward args, const GradSink& dposition) const = 0;
};

// P from the position weights [H, 3], axis by axis.
std::shared_ptr<const DtnPlan> separable_dtn_plan(Tensor weights);
// On a grid of one row, from the same weights: P through its windows. lengths [B] int64: how many
// tokens of each sample are valid, pads stand behind them; undefined: all. a_d is what a run that
// only counts operations takes the windows to be of.
std::shared_ptr<const DtnPlan> line_dtn_plan(Tensor weights, Tensor lengths, double a_d);
// All of P, as `positions` describes it but for its pointers. `parameter` is [H, 3], or a table
// [H, T', T']; undefined where the kind of positions has none.
std::shared_ptr<const DtnPlan> dense_dtn_plan(const DtnDensePositions& positions, Tensor parameter,
                                              Device device);

}  // namespace dtn
