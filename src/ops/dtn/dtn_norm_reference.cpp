// Dynamic Token Normalization in primitive operations. Every kind of positions and every cell size
// is one dense matrix.
#include "dtn/ops/norm.h"
#include "dtn/ops/padding.h"
#include "dtn/ops/primitive.h"
#include "nn/norms/dtn.h"
#include "ops/attention/relative_offsets.h"
#include "ops/host_constant.h"

namespace dtn {

namespace e = primitive;

Variable DtnLambda::variable(Context& ctx, DType dtype, Device device) const {
  const Variable value =
      fixed_ ? Variable(Tensor::full({heads_}, dtype, *fixed_, device)) : e::sigmoid(ctx, *logit());
  return e::reshape(ctx, value, {1, heads_, 1, 1});
}

namespace {

// Returns a constant matrix for every head, [H, rows, columns].
template <class F>
Variable constant_matrix(std::int64_t heads, std::int64_t rows, std::int64_t columns, DType dtype,
                         Device device, F&& value) {
  return Variable(ops::host_constant(
      {heads, rows, columns}, dtype, device,
      [&](std::int64_t element) { return value(element / columns % rows, element % columns); }));
}

}  // namespace

Variable DynamicTokenNorm::reference_positions(Context& ctx, const TokenGrid& cells, DType dtype,
                                               Device device) const {
  using Position = DtnOptions::Position;
  const std::int64_t heads = shape_.heads, n = cells.tokens();
  if (options_.position == Position::kFree) return e::softmax(ctx, *position());
  if (options_.position == Position::kRelative) {  // without the bias of pos_proj: it has no effect
    Variable offsets(ops::relative_offsets(cells.height, cells.width, dtype, device,
                                           options_.variant == DtnVariant::kOfficial ? -1 : 1));
    Variable scores = e::matmul(ctx, offsets, e::permute(ctx, *position(), {1, 0}));  // [T' T', H]
    return e::softmax(ctx, e::reshape(ctx, e::permute(ctx, scores, {1, 0}), {heads, n, n}));
  }
  const std::int64_t half = options_.position == Position::kUniform ? n : (options_.band - 1) / 2;
  return constant_matrix(heads, n, n, dtype, device, [&](std::int64_t i, std::int64_t j) {
    const std::int64_t first = std::max<std::int64_t>(i - half, 0),
                       last = std::min(i + half, n - 1);
    return first <= j && j <= last ? 1.0 / static_cast<double>(last - first + 1) : 0.0;
  });
}

Variable DynamicTokenNorm::reference(Context& ctx, const Variable& input,
                                     const TokenGrid& arrangement) {
  const TokenGrid grid = seen(arrangement);
  check(input, grid);
  if (grid.padded()) return reference_of_padded(ctx, input, grid);
  if (grid.prefix == 0) return reference_on_grid(ctx, input, grid);
  Variable prefix = ops::reference::layer_norm(ctx, e::narrow(ctx, input, 1, 0, grid.prefix),
                                               weight_->variable, bias_->variable, shape_.eps);
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

Variable DynamicTokenNorm::reference_on_grid(Context& ctx, const Variable& input,
                                             const TokenGrid& grid) const {
  bool official = options_.variant == DtnVariant::kOfficial;
  std::int64_t batch = input.dim(0), tokens = grid.tokens(), heads = shape_.heads;
  std::int64_t channels = shape_.channels, head_dim = channels / heads;
  const DType dtype = accumulator_of(input.dtype());
  const Device device = input.device();

  Variable x = e::upcast(ctx, input);
  if (official) {
    Variable split = e::reshape(ctx, x, {batch, tokens, heads, head_dim});
    Variable power = e::mean(ctx, e::mul(ctx, split, split), -1);
    split = e::div(ctx, split, e::sqrt(ctx, e::affine(ctx, power, 1, shape_.eps)));
    x = e::reshape(ctx, split, {batch, tokens, channels});
  }
  // Token statistics over all channels, [B, 1, T, 1].
  Variable mu_ln = e::mean(ctx, x, -1);
  Variable centred = e::sub(ctx, x, mu_ln);
  double divisor = static_cast<double>(official ? channels - 1 : channels);
  Variable var_ln = e::affine(ctx, e::sum(ctx, e::mul(ctx, centred, centred), -1), 1.0 / divisor);
  mu_ln = e::reshape(ctx, mu_ln, {batch, 1, tokens, 1});
  var_ln = e::reshape(ctx, var_ln, {batch, 1, tokens, 1});

  // P [H, T', T'] is the same for every image and relates cells of tokens. `average` computes the
  // values of cells; `spread` gives every token the statistics of its cell.
  const TokenGrid cells = options_.cells(grid);
  const std::int64_t pool = options_.pool, n = cells.tokens();
  auto cell_of = [&](std::int64_t t) {
    return t / grid.width / pool * cells.width + t % grid.width / pool;
  };
  Variable average =
      constant_matrix(heads, n, tokens, dtype, device, [&](std::int64_t i, std::int64_t t) {
        return cell_of(t) == i ? 1.0 / static_cast<double>(pool * pool) : 0.0;
      });
  Variable spread =
      constant_matrix(heads, tokens, n, dtype, device,
                      [&](std::int64_t t, std::int64_t i) { return cell_of(t) == i ? 1.0 : 0.0; });
  Variable p = e::matmul(ctx, spread, reference_positions(ctx, cells, dtype, device));

  // Cross-token statistics within each head, with the images as columns side by side, [H, T, B D].
  auto to_columns = [&](const Variable& v) {
    return e::reshape(
        ctx, e::permute(ctx, e::reshape(ctx, v, {batch, tokens, heads, head_dim}), {2, 1, 0, 3}),
        {heads, tokens, batch * head_dim});
  };
  auto from_columns = [&](const Variable& v) {  // [B, H, T, D]
    return e::permute(ctx, e::reshape(ctx, v, {heads, tokens, batch, head_dim}), {2, 0, 1, 3});
  };
  // A shift does not change the variance, so a constant near the mean is subtracted before
  // squaring.
  Context plain;
  Variable pivot(e::mean(plain, Variable(x.value()), 1).value());  // [B, 1, C]
  Variable shifted = e::sub(ctx, x, pivot);
  Variable seen = e::matmul(ctx, average, to_columns(shifted));
  Variable s1 = from_columns(e::matmul(ctx, p, seen));
  Variable s2 = from_columns(e::matmul(ctx, p, e::mul(ctx, seen, seen)));
  Variable v1 = e::sub(ctx, s2, e::mul(ctx, s1, s1));
  if (!official) v1 = e::relu(ctx, v1);
  Variable m1 = e::add(
      ctx, s1, e::permute(ctx, e::reshape(ctx, pivot, {batch, 1, heads, head_dim}), {0, 2, 1, 3}));

  auto mix = [&](const Variable& l, const Variable& token, const Variable& across) {
    return e::add(ctx, e::mul(ctx, l, token), e::mul(ctx, e::affine(ctx, l, -1, 1), across));
  };
  Variable mu = mix(lambda_mean_.variable(ctx, dtype, device), mu_ln, m1);
  Variable var = mix(lambda_var_.variable(ctx, dtype, device), var_ln, v1);
  Variable xs = e::permute(ctx, e::reshape(ctx, x, {batch, tokens, heads, head_dim}), {0, 2, 1, 3});
  Variable xhat =
      e::div(ctx, e::sub(ctx, xs, mu), e::sqrt(ctx, e::affine(ctx, var, 1, shape_.eps)));
  Variable back = e::reshape(ctx, e::permute(ctx, xhat, {0, 2, 1, 3}), {batch, tokens, channels});
  Variable y = e::add(ctx, e::mul(ctx, back, weight_->variable), bias_->variable);
  return e::cast(ctx, y, input.dtype());
}

}  // namespace dtn
