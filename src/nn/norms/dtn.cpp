// Dynamic Token Normalization (Shao et al., ICLR 2022). The math is in kernels/dtn/dtn_norm.h; this
// file holds the parameters and the autograd node.
//
// Parameters, named and laid out as in the released code:
//    weight[C], bias[C], mean_norm_weight[H], var_norm_weight[H] (logits of lambda),
//    pos_proj.weight[H, 3] with columns (x, y, d), pos_proj.bias[H] (no effect under the softmax)
// With prefix: ln, weight and bias also serve the tokens before the grid.
// Free positions have position_table[H, T', T'] instead of pos_proj; uniform and banded positions
// have neither.
#include "nn/norms/dtn.h"

#include <cmath>
#include <cstddef>

#include "dtn/core/check.h"
#include "dtn/nn/relative_positions.h"
#include "dtn/ops/padding.h"
#include "kernels/pointwise/pointwise.h"
#include "nn/norms/dtn_prefix.h"
#include "nn/norms/rows.h"
#include "ops/dispatch.h"
#include "ops/norm/fused_sum.h"
#include "ops/norm/norm_gradients.h"

namespace dtn {
namespace {

Parameter* add_relative_positions(std::int64_t heads, DtnOptions::Init init, const Scope& scope) {
  using Init = DtnOptions::Init;
  const Shape shape = {heads, 3};
  Parameter* weight =
      init == Init::kTruncatedNormal
          ? scope.weight("weight", shape, InitKind::kTruncatedNormal, Decay::kYes)
          : scope.weight("weight", shape,
                         init == Init::kLocal ? init_local_positions : init_line_positions,
                         Decay::kYes);
  scope.weight("bias", {heads}, InitKind::kZeros, Decay::kNo);
  return weight;
}

const void* skip(const void* p, std::size_t bytes) {
  return p ? static_cast<const std::byte*>(p) + bytes : nullptr;
}
void* skip(void* p, std::size_t bytes) { return p ? static_cast<std::byte*>(p) + bytes : nullptr; }

const void* logit_or_null(const Variable* v) { return v ? v->value().raw() : nullptr; }

// Returns a constant for all heads, cached in `kept` on the device of the last use.
const Tensor& constant(Tensor& kept, const Shape& shape, double value, DType acc, Device device) {
  if (!kept.defined() || kept.dtype() != acc || !(kept.device() == device)) {
    kept = Tensor::full(shape, acc, value).to(device);
  }
  return kept;
}

}  // namespace

DtnLambda::DtnLambda(std::int64_t heads, std::optional<double> fixed, double start,
                     const Scope& scope, std::string_view name)
    : heads_(heads), fixed_(fixed) {
  if (fixed) return;
  const double logit = std::log(start / (1 - start));
  logit_ = scope.weight(name, {heads}, [logit](Tensor& value, std::uint64_t, const std::string&) {
    value.copy_from(Tensor::full(value.shape(), value.dtype(), logit));
  });
}

Tensor DtnLambda::place(DType acc, Device device) const {
  if (fixed_) return constant(fixed_value_, {heads_}, *fixed_, acc, device);
  return Tensor::empty({heads_}, acc, device);
}

Tensor DtnLambda::value(DType acc, Device device) const {
  Tensor lambda = place(acc, device);
  if (!fixed_) run_on(device, Sigmoid{acc, heads_, logit()->value().raw(), lambda.raw()});
  return lambda;
}

DynamicTokenNorm::DynamicTokenNorm(const NormConfig& config, const NormShape& shape,
                                   const Scope& scope)
    : shape_(shape), options_(config) {
  DTN_CHECK(shape.channels % shape.heads == 0, "dtn: ", shape.channels,
            " channels do not divide into ", shape.heads, " heads");
  weight_ = scope.weight("weight", {shape.channels}, InitKind::kOnes, Decay::kNo);
  bias_ = scope.weight("bias", {shape.channels}, InitKind::kZeros, Decay::kNo);
  const std::optional<double> of_mean = options_.only_var ? 1.0 : options_.lambda;
  const double start = options_.init_lambda;
  lambda_mean_ = DtnLambda(shape.heads, of_mean, start, scope, "mean_norm_weight");
  lambda_var_ = DtnLambda(shape.heads, options_.lambda, start, scope, "var_norm_weight");
  if (options_.position == DtnOptions::Position::kRelative) {
    position_ = add_relative_positions(shape.heads, options_.init, scope / "pos_proj");
  } else if (options_.position == DtnOptions::Position::kFree) {
    const TokenGrid cells = options_.cells(shape.grid);
    DTN_CHECK(cells.tokens() > 0,
              "dtn: position free is a table of pairs of tokens; it needs to know the "
              "grid of tokens when it is built");
    position_ = scope.weight("position_table", {shape.heads, cells.tokens(), cells.tokens()},
                             InitKind::kTruncatedNormal, Decay::kYes);
    position_->positions = {PositionKind::kPairs, cells.height, cells.width};
  }
}

void DynamicTokenNorm::check(const Variable& x, const TokenGrid& grid) const {
  DTN_CHECK(x.value().rank() == 3 && x.dim(1) == grid.tokens() && x.dim(2) == shape_.channels,
            "dtn: input ", to_string(x.shape()), " is not [B, ", grid.prefix, " + ", grid.height,
            " x ", grid.width, ", ", shape_.channels, "]");
  DTN_CHECK(grid.height % options_.pool == 0 && grid.width % options_.pool == 0, "dtn: a grid of ",
            grid.height, " x ", grid.width, " tokens does not divide into cells of ", options_.pool,
            " x ", options_.pool);
  DTN_CHECK(options_.position != DtnOptions::Position::kFree ||
                (grid.height == shape_.grid.height && grid.width == shape_.grid.width),
            "dtn: the position table was made for ", shape_.grid.height, " x ", shape_.grid.width,
            " tokens, not for ", grid.height, " x ", grid.width);
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

std::shared_ptr<const DtnPlan> DynamicTokenNorm::plan(const TokenGrid& grid, DType acc,
                                                      Device device) const {
  const Tensor parameter = position_ ? position_->variable.value() : Tensor();
  const bool line = options_.line(grid);
  DTN_CHECK(
      line || !grid.padded(),
      "dtn: samples of different lengths are normalized on a line, with position: relative or "
      "uniform and pool: 1");
  if (options_.dense(device)) {
    return dense_dtn_plan(dense_positions(grid, acc), parameter, device);
  }
  const Tensor weights =
      parameter.defined() ? parameter : constant(zero_weights_, {shape_.heads, 3}, 0, acc, device);
  if (line) return line_dtn_plan(weights, grid.lengths, options_.start_a_d());
  return separable_dtn_plan(weights);
}

// --- fused passes -------------------------------------------------------------------------------

// Inputs of both passes, kept by the tape. fill() sets the arguments that both passes share.
struct DynamicTokenNorm::Passes {
  NormShape shape;
  DtnOptions options;
  TokenGrid grid;
  DType acc;
  Device device;
  Tensor x;
  std::shared_ptr<const DtnPlan> plan;  // null: all tokens belong to the prefix
  std::optional<DtnPrefix> prefix{};
  Tensor weight{}, lambda_mean{}, lambda_var{};
  Tensor token_mean{}, token_var{}, pivot{}, head_rstd{};

  template <class Arguments>
  void fill(Arguments& args) const {
    auto raw = [](Tensor t) {
      return t.defined() ? t.raw() : nullptr;
    };  // the forward pass writes some
    args.dtype = x.dtype();
    args.batch = x.dim(0);
    args.grid_h = grid.height;
    args.grid_w = grid.width;
    args.channels = shape.channels;
    args.heads = shape.heads;
    args.eps = shape.eps;
    args.variant = options.variant;
    args.image_stride = grid.tokens() * shape.channels;
    args.x = skip(raw(x), ahead());
    args.weight = raw(weight);
    args.lambda_mean = raw(lambda_mean);
    args.lambda_var = raw(lambda_var);
    args.pool = options.pool;
    args.token_mean = raw(token_mean);
    args.token_var = raw(token_var);
    args.pivot = raw(pivot);
    args.head_rstd = raw(head_rstd);
  }

  // Returns the bytes before the grid in an image.
  std::size_t ahead() const {
    return static_cast<std::size_t>(grid.prefix * shape.channels) *
           static_cast<std::size_t>(size_of(x.dtype()));
  }

  // Backward pass of the tokens of the grid. The tensors of `args` include the tokens before it.
  void backward(DtnNormBackward args, const GradSink& dposition, const GradSink& dmean,
                const GradSink& dvar) const {
    args.dlambda_mean = ops::buffer_or_null(dmean, {shape.heads}, acc, device);
    args.dlambda_var = ops::buffer_or_null(dvar, {shape.heads}, acc, device);
    args.by_logits = true;
    fill(args);
    args.dy = skip(args.dy, ahead());
    args.dx_add = skip(args.dx_add, ahead());
    args.dx = skip(args.dx, ahead());
    plan->backward(args, dposition);
  }
};

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

Variable DynamicTokenNorm::normalize(Context& ctx, const Variable& x, const TokenGrid& grid,
                                     const ops::FusedSum* fused) {
  check(x, grid);
  const std::int64_t batch = x.dim(0), tokens = grid.height * grid.width;
  check_lengths(x, grid);
  const DType acc = accumulator_of(x.dtype());
  const Device device = x.device();
  Passes passes{shape_, options_, grid, acc, device, x.value(), nullptr};
  passes.weight = weight_->variable.value();
  passes.lambda_mean = lambda_mean_.place(acc, device);
  passes.lambda_var = lambda_var_.place(acc, device);
  passes.token_mean = Tensor::empty({batch, tokens}, acc, device);
  passes.token_var = Tensor::empty({batch, tokens}, acc, device);
  passes.pivot = Tensor::empty({batch, shape_.channels}, acc, device);
  if (options_.variant == DtnVariant::kOfficial) {
    passes.head_rstd = Tensor::empty({batch, shape_.heads, tokens}, DType::kFloat64, device);
  }

  Tensor y = Tensor::empty_like(x.value());
  const Variable *mean_logit = lambda_mean_.logit(), *var_logit = lambda_var_.logit();
  if (tokens > 0) {
    passes.plan = plan(grid, acc, device);
    DtnNormForward args{};
    args.logits = {logit_or_null(mean_logit), logit_or_null(var_logit), passes.lambda_mean.raw(),
                   passes.lambda_var.raw()};
    if (fused) {
      args.sum = {fused->residual.raw(), fused->branch.raw(),
                  fused->scale.defined() ? fused->scale.raw() : nullptr, passes.x.raw()};
    }
    args.bias = bias_->variable.value().raw();
    args.y = skip(y.raw(), passes.ahead());
    passes.fill(args);
    passes.plan->forward(args);
  }
  if (grid.prefix > 0) {
    passes.prefix.emplace(x.value(), grid.prefix, shape_.eps, passes.weight);
    passes.prefix->forward(bias_->variable.value(), y);
  }

  auto sink_of = [](const Variable* v) { return v ? v->sink() : nullptr; };
  auto backward = [passes, dx = x.sink(), dweight = weight_->variable.sink(),
                   dbias = bias_->variable.sink(), dposition = sink_of(position()),
                   dmean = sink_of(mean_logit), dvar = sink_of(var_logit),
                   branch = fused ? fused->gradient : ops::BranchGradient()](const Tensor& dy) {
    const std::int64_t channels = passes.shape.channels;
    ops::NormInputGradient input(dx, passes.x);
    DtnNormBackward back{};
    back.dy = dy.raw();
    back.dx_add = input.waiting();
    back.dx = input.destination();
    Tensor dbranch = back.dx ? branch.make_like(passes.x) : Tensor();
    if (dbranch.defined()) {
      back.dbranch = dbranch.raw();
      back.dbranch_sums = branch.sum_columns();
      back.branch_scale = branch.scale().raw();
    }
    back.dweight = ops::buffer_or_null(dweight, {channels}, passes.acc, passes.device);
    back.dbias = ops::buffer_or_null(dbias, {channels}, passes.acc, passes.device);
    // Runs before the grid's pass, which may overwrite the waiting gradient.
    if (passes.prefix) {
      passes.prefix->backward(back.dy, back.dx_add, back.dx, back.dweight, back.dbias);
    }
    if (passes.plan) passes.backward(back, dposition, dmean, dvar);
    input.deliver();
  };
  return ctx.record("dtn", y,
                    {&x, &weight_->variable, &bias_->variable, position(), mean_logit, var_logit},
                    std::move(backward));
}

NormRow dtn_row() {
  NormSchema schema;
  schema.type = "dtn";
  schema.doc = "Dynamic Token Normalization: statistics within and across tokens, mixed per head";
  schema.needs_grid = true;
  schema.options = DtnOptions::schema();
  schema.check = DtnOptions::check;
  return {std::move(schema),
          [](const NormConfig& config, const NormShape& shape,
             const Scope& scope) -> std::unique_ptr<Normalizer> {
            return std::make_unique<DynamicTokenNorm>(config, shape, scope);
          }};
}

}  // namespace dtn
