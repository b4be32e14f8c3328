// Dynamic Token Normalization (Shao et al., ICLR 2022). The math is in kernels/dtn/dtn_norm.h; this
// file holds the parameters.
//
// Parameters, named and laid out as in the released code:
//    weight[C], bias[C], mean_norm_weight[H], var_norm_weight[H] (logits of lambda),
//    pos_proj.weight[H, 3] with columns (x, y, d), pos_proj.bias[H] (no effect under the softmax)
// With prefix: ln, weight and bias also serve the tokens before the grid. Without NormShape::affine
// there are no weight and bias.
// Free positions have position_table[H, T', T'] instead of pos_proj; uniform and banded positions
// have neither.
#include "nn/norms/dtn.h"

#include <cmath>

#include "dtn/core/check.h"
#include "dtn/nn/initializers.h"
#include "dtn/nn/positions.h"
#include "dtn/ops/norm.h"
#include "dtn/ops/padding.h"
#include "dtn/ops/primitive.h"
#include "kernels/pointwise/pointwise.h"
#include "nn/norms/entries.h"

namespace dtn {
namespace {

Parameter* add_relative_positions(std::int64_t heads, DtnOptions::Init init, const Scope& scope) {
  using Init = DtnOptions::Init;
  Initializer start = InitKind::kTruncatedNormal;
  if (init == Init::kLocal) start = init_local_positions;
  if (init == Init::kLocalLine) start = init_line_positions;
  Parameter* weight = scope.weight("weight", {heads, 3}, start, Decay::kYes);
  scope.weight("bias", {heads}, InitKind::kZeros, Decay::kNo);
  return weight;
}

}  // namespace

DtnLambda::DtnLambda(std::int64_t heads, std::optional<double> fixed, double start,
                     const Scope& scope, std::string_view name)
    : heads_(heads), fixed_(fixed) {
  if (fixed) return;
  logit_ = scope.weight(name, {heads}, constant_value(std::log(start / (1 - start))));
}

Tensor DtnLambda::place(DType acc, Device device) const {
  if (fixed_) return cached_constant(fixed_value_, {heads_}, *fixed_, acc, device);
  return Tensor::empty({heads_}, acc, device);
}

Tensor DtnLambda::value(DType acc, Device device) const {
  Tensor lambda = place(acc, device);
  if (!fixed_) run_on(device, Sigmoid{acc, heads_, logit()->value().raw(), lambda.raw()});
  return lambda;
}

DynamicTokenNorm::DynamicTokenNorm(const NormConfig& config, const NormShape& shape,
                                   const Scope& scope)
    : shape_(shape), options_(config), affine_(shape, scope) {
  DTN_CHECK(shape.channels % shape.heads == 0, "dtn: ", shape.channels,
            " channels are not divisible into ", shape.heads, " heads");
  const std::optional<double> of_mean = options_.only_var ? 1.0 : options_.lambda;
  const double start = options_.init_lambda;
  lambda_mean_ = DtnLambda(shape.heads, of_mean, start, scope, "mean_norm_weight");
  lambda_var_ = DtnLambda(shape.heads, options_.lambda, start, scope, "var_norm_weight");
  if (options_.position == DtnOptions::Position::kRelative) {
    position_ = add_relative_positions(shape.heads, options_.init, scope / "pos_proj");
  } else if (options_.position == DtnOptions::Position::kFree) {
    const TokenGrid cells = options_.cells(shape.grid);
    DTN_CHECK(cells.tokens() > 0,
              "dtn: position free is a table of token pairs, so it needs the grid of tokens when "
              "it is built");
    position_ = scope.weight("position_table", {shape.heads, cells.tokens(), cells.tokens()},
                             InitKind::kTruncatedNormal, Decay::kYes);
    position_->positions = {PositionKind::kPairs, cells.height, cells.width};
  }
}

void DynamicTokenNorm::check(const Variable& x, const TokenGrid& grid) const {
  DTN_CHECK(x.value().rank() == 3 && x.dim(1) == grid.tokens() && x.dim(2) == shape_.channels,
            "dtn: input ", to_string(x.shape()), " is not [B, ", grid.prefix, " + ", grid.height,
            " x ", grid.width, ", ", shape_.channels, "]");
  const std::string problem = grid_problem(grid);
  DTN_CHECK(problem.empty(), "dtn: ", problem);
}

std::string DynamicTokenNorm::grid_problem(const TokenGrid& arrangement) const {
  const TokenGrid grid = seen(arrangement);
  if (grid.height % options_.pool != 0 || grid.width % options_.pool != 0) {
    return cat("a grid of ", grid.height, " x ", grid.width,
               " tokens is not divisible into squares of ", options_.pool, " x ", options_.pool,
               " (model.norm.pool)");
  }
  const bool has_grid = grid.height * grid.width > 0;
  if (has_grid && options_.position == DtnOptions::Position::kFree &&
      (grid.height != shape_.grid.height || grid.width != shape_.grid.width)) {
    return cat("model.norm.position: free is a table for a grid of ", shape_.grid.height, " x ",
               shape_.grid.width, " tokens, not for ", grid.height, " x ", grid.width);
  }
  return {};
}

DtnDensePositions DynamicTokenNorm::dense_positions(const TokenGrid& grid, DType acc) const {
  using Position = DtnOptions::Position;
  const TokenGrid cells = options_.cells(grid);
  DtnDensePositions args{};
  args.dtype = acc;
  args.heads = shape_.heads;
  args.grid_h = cells.height;
  args.grid_w = cells.width;
  args.variant = options_.variant;
  switch (options_.position) {
    case Position::kRelative: args.kind = DtnPositionKind::kRelative; break;
    case Position::kFree: args.kind = DtnPositionKind::kTable; break;
    case Position::kUniform:
    case Position::kBanded: args.kind = DtnPositionKind::kBanded; break;
  }
  args.band = options_.position == Position::kUniform ? 2 * cells.tokens() - 1 : options_.band;
  return args;
}

void DynamicTokenNorm::check_lengths(const Variable& x, const TokenGrid& grid) const {
  if (!grid.padded()) return;
  DTN_CHECK(grid.lengths.device() == x.device(), "dtn: lengths are on ",
            to_string(grid.lengths.device()), ", their tokens on ", to_string(x.device()));
  // Lengths on a GPU are not checked, because the host would have to wait for them.
  if (x.device().type != DeviceType::kCuda) {
    ops::host_lengths(grid.lengths, x.dim(0), grid.tokens());
  }
}

std::shared_ptr<const ops::DtnPlan> DynamicTokenNorm::plan(const TokenGrid& grid, DType acc,
                                                           Device device) const {
  const Tensor parameter = position_ ? position_->variable.value() : Tensor();
  const bool line = options_.line(grid);
  DTN_CHECK(line || !grid.padded(),
            "dtn: samples of different lengths need a grid of one row, position: relative or "
            "uniform, and pool: 1");
  if (options_.dense(device)) {
    return ops::dense_dtn_plan(dense_positions(grid, acc), parameter, device);
  }
  const Tensor weights = parameter.defined()
                             ? parameter
                             : cached_constant(zero_weights_, {shape_.heads, 3}, 0, acc, device);
  if (line) return ops::line_dtn_plan(weights, grid.lengths, options_.start_a_d());
  return ops::separable_dtn_plan(weights);
}

Variable DynamicTokenNorm::forward(Context& ctx, const Variable& x, const TokenGrid& arrangement) {
  return normalize(ctx, x, seen(arrangement), nullptr);
}

Variable DynamicTokenNorm::forward_sum(Context& ctx, const Variable& residual,
                                       const Variable& branch, const Tensor& scale,
                                       const TokenGrid& arrangement, Variable& sum) {
  const TokenGrid grid = seen(arrangement);
  if (!options_.takes_sum(grid, residual.device())) {
    return Normalizer::forward_sum(ctx, residual, branch, scale, arrangement, sum);
  }
  const ops::FusedSum fused(ctx, residual, branch, scale);
  sum = fused.sum;
  return normalize(ctx, sum, grid, &fused);
}

Variable DynamicTokenNorm::forward_modulated(Context& ctx, const Variable& x,
                                             const Variable& modulation,
                                             const TokenGrid& arrangement) {
  const TokenGrid grid = seen(arrangement);
  if (affine_.weight.parameter().defined() || !options_.takes_modulation(grid, x.device())) {
    return Normalizer::forward_modulated(ctx, x, modulation, arrangement);
  }
  return normalize(ctx, x, grid, nullptr, &modulation);
}

Variable DynamicTokenNorm::normalize(Context& ctx, const Variable& x, const TokenGrid& grid,
                                     const ops::FusedSum* fused, const Variable* modulation) {
  check(x, grid);
  check_lengths(x, grid);
  const DType acc = accumulator_of(x.dtype());
  const bool has_grid = grid.height * grid.width > 0;
  const Variable weight = affine_.weight.values_for(x), bias = affine_.bias.values_for(x);
  return ops::dtn_norm(ctx, x,
                       {.weight = weight,
                        .bias = bias,
                        .mean = {lambda_mean_.place(acc, x.device()), lambda_mean_.logit()},
                        .var = {lambda_var_.place(acc, x.device()), lambda_var_.logit()},
                        .position = position(),
                        .plan = has_grid ? plan(grid, acc, x.device()) : nullptr,
                        .modulation = modulation},
                       shape_on(grid), fused);
}

// --- reference ----------------------------------------------------------------------------------

namespace e = primitive;

Variable DtnLambda::variable(Context& ctx, DType dtype, Device device) const {
  return fixed_ ? Variable(Tensor::full({heads_}, dtype, *fixed_, device))
                : e::sigmoid(ctx, *logit());
}

Variable DynamicTokenNorm::reference_positions(Context& ctx, const TokenGrid& grid, DType dtype,
                                               Device device) const {
  return ops::reference::dtn_positions(ctx, dense_positions(grid, dtype), position(), dtype,
                                       device);
}

Variable DynamicTokenNorm::reference_on_grid(Context& ctx, const Variable& x,
                                             const TokenGrid& grid) const {
  const DType acc = accumulator_of(x.dtype());
  const Variable weight = affine_.weight.values_for(x), bias = affine_.bias.values_for(x);
  return ops::reference::dtn_norm(ctx, x,
                                  {.positions = reference_positions(ctx, grid, acc, x.device()),
                                   .lambda_mean = lambda_mean_.variable(ctx, acc, x.device()),
                                   .lambda_var = lambda_var_.variable(ctx, acc, x.device()),
                                   .weight = weight,
                                   .bias = bias},
                                  shape_on(grid));
}

Variable DynamicTokenNorm::reference(Context& ctx, const Variable& input,
                                     const TokenGrid& arrangement) {
  const TokenGrid grid = seen(arrangement);
  check(input, grid);
  if (grid.padded()) return reference_of_padded(ctx, input, grid);
  if (grid.prefix == 0) return reference_on_grid(ctx, input, grid);
  Variable prefix = ops::reference::layer_norm(ctx, e::narrow(ctx, input, 1, 0, grid.prefix),
                                               affine_.weight.values_for(input),
                                               affine_.bias.values_for(input), shape_.eps);
  if (grid.prefix == grid.tokens()) return prefix;
  const TokenGrid alone{grid.height, grid.width};
  const Variable tokens = e::narrow(ctx, input, 1, grid.prefix, grid.tokens());
  return e::concat(ctx, prefix, reference_on_grid(ctx, tokens, alone), 1);
}

// Normalizes the valid tokens of each sample separately, and writes zeros after them.
Variable DynamicTokenNorm::reference_of_padded(Context& ctx, const Variable& x,
                                               const TokenGrid& grid) {
  const std::vector<std::int64_t> lengths = ops::host_lengths(grid.lengths, x.dim(0), x.dim(1));
  Variable all;
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    const Variable sample = e::narrow(ctx, e::narrow(ctx, x, 0, b, b + 1), 1, 0, length);
    const Variable y =
        e::pad(ctx, reference_on_grid(ctx, sample, {1, length}), 1, 0, x.dim(1) - length);
    all = all.defined() ? e::concat(ctx, all, y, 0) : y;
  }
  return all;
}

NormEntry dtn_entry() {
  return {
      {.type = "dtn",
       .doc = "Dynamic Token Normalization: statistics within and across tokens, mixed per head",
       .options = DtnOptions::schema(),
       .needs_grid = true,
       .check = DtnOptions::check},
      make_norm<DynamicTokenNorm>};
}

}  // namespace dtn
