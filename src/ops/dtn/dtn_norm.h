// Dynamic Token Normalization as an operation. The formulas are in kernels/dtn/dtn_norm.h.
//    dtn_norm.cpp            the autograd node
//    dtn_plan.cpp            kernels of the cross-token statistics
//    dtn_prefix.cpp          LayerNorm of tokens before the grid
//    dtn_norm_reference.cpp  the reference in primitive operations
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "dtn/autograd/context.h"
#include "kernels/dtn/dtn_dense_positions.h"
#include "ops/dtn/dtn_plan.h"
#include "ops/norm/fused_sum.h"

namespace dtn::ops {

// Arrangement and options of x [B, prefix + grid_h grid_w, C].
struct DtnNormShape {
  std::int64_t grid_h, grid_w, prefix;  // the prefix is normalized by LayerNorm
  std::int64_t heads;
  double eps;
  DtnVariant variant;
  std::int64_t pool;  // all tokens of a cell of pool x pool tokens share their statistics

  std::int64_t tokens() const { return grid_h * grid_w; }
};

// Lambda of the mean or of the variance: the weight of a token's own statistics, by head.
struct DtnNormLambda {
  Tensor value;            // [H], accumulator type; filled by the pass if there are logits
  const Variable* logits;  // [H]; null: `value` is given
};

struct DtnNormInputs {
  const Variable &weight, &bias;  // [C]; not read with a modulation
  DtnNormLambda mean, var;
  const Variable* position;             // the parameter of the plan; null: none
  std::shared_ptr<const DtnPlan> plan;  // null: there are no tokens after the prefix
  // [B, 2 C], accumulator type: shifts and then scales of each sample, instead of weight and bias.
  // On the CPU only, without a prefix, and not on a grid of one row. Null: none.
  const Variable* modulation = nullptr;
};

// With `sum`, x is sum->sum, which the kernels compute on the way.
Variable dtn_norm(Context&, const Variable& x, const DtnNormInputs&, const DtnNormShape&,
                  const FusedSum* sum = nullptr);

namespace reference {

// P [H, T', T'] over a grid of cells, from the parameter: [H, 3], or the table [H, T', T'].
Variable dtn_positions(Context&, const DtnDensePositions&, const Variable* parameter, DType,
                       Device);

// `positions` is P; the lambdas are [H]. The shape has no prefix.
struct DtnNormOperands {
  Variable positions, lambda_mean, lambda_var;
  const Variable &weight, &bias;
};
Variable dtn_norm(Context&, const Variable& x, const DtnNormOperands&, const DtnNormShape&);

}  // namespace reference
}  // namespace dtn::ops
