// Dynamic Token Normalization in primitive operations. Every kind of positions and every cell size
// is one dense matrix.
#include <algorithm>

#include "dtn/ops/primitive.h"
#include "ops/attention/attention_parts.h"
#include "ops/dtn/dtn_norm.h"
#include "ops/host_constant.h"

namespace dtn::ops::reference {

namespace e = primitive;

namespace {

// Returns a constant matrix for every head, [H, rows, columns].
template <class F>
Variable constant_matrix(std::int64_t heads, std::int64_t rows, std::int64_t columns, DType dtype,
                         Device device, F&& value) {
  return Variable(host_constant({heads, rows, columns}, dtype, device, [&](std::int64_t element) {
    return value(element / columns % rows, element % columns);
  }));
}

}  // namespace

Variable dtn_positions(Context& ctx, const DtnDensePositions& how, const Variable* parameter,
                       DType dtype, Device device) {
  const std::int64_t heads = how.heads, n = how.grid_h * how.grid_w;
  if (how.kind == DtnPositionKind::kTable) return e::softmax(ctx, *parameter);
  if (how.kind == DtnPositionKind::kRelative) {  // without the bias of pos_proj: it has no effect
    const Variable offsets = relative_offsets(how.grid_h, how.grid_w, dtype, device,
                                              how.variant == DtnVariant::kOfficial ? -1 : 1);
    Variable scores = e::matmul(ctx, offsets, e::permute(ctx, *parameter, {1, 0}));  // [T' T', H]
    return e::softmax(ctx, e::reshape(ctx, e::permute(ctx, scores, {1, 0}), {heads, n, n}));
  }
  const std::int64_t half = (how.band - 1) / 2;
  return constant_matrix(heads, n, n, dtype, device, [&](std::int64_t i, std::int64_t j) {
    const std::int64_t first = std::max<std::int64_t>(i - half, 0),
                       last = std::min(i + half, n - 1);
    return first <= j && j <= last ? 1.0 / static_cast<double>(last - first + 1) : 0.0;
  });
}

Variable dtn_norm(Context& ctx, const Variable& input, const DtnNormOperands& in,
                  const DtnNormShape& shape) {
  bool official = shape.variant == DtnVariant::kOfficial;
  std::int64_t batch = input.dim(0), tokens = shape.tokens(), heads = shape.heads;
  std::int64_t channels = input.dim(2), head_dim = channels / heads;
  const DType dtype = accumulator_of(input.dtype());
  const Device device = input.device();

  Variable x = e::upcast(ctx, input);
  if (official) {
    Variable split = e::reshape(ctx, x, {batch, tokens, heads, head_dim});
    Variable power = e::mean(ctx, e::mul(ctx, split, split), -1);
    split = e::div(ctx, split, e::sqrt(ctx, e::affine(ctx, power, 1, shape.eps)));
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
  const std::int64_t pool = shape.pool, w = shape.grid_w, n = tokens / (pool * pool);
  auto cell_of = [&](std::int64_t t) { return t / w / pool * (w / pool) + t % w / pool; };
  Variable average =
      constant_matrix(heads, n, tokens, dtype, device, [&](std::int64_t i, std::int64_t t) {
        return cell_of(t) == i ? 1.0 / static_cast<double>(pool * pool) : 0.0;
      });
  Variable spread =
      constant_matrix(heads, tokens, n, dtype, device,
                      [&](std::int64_t t, std::int64_t i) { return cell_of(t) == i ? 1.0 : 0.0; });
  Variable p = e::matmul(ctx, spread, in.positions);

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

  const auto lambda_of = [&](const Variable& l) { return e::reshape(ctx, l, {1, heads, 1, 1}); };
  auto mix = [&](const Variable& l, const Variable& token, const Variable& across) {
    return e::add(ctx, e::mul(ctx, l, token), e::mul(ctx, e::affine(ctx, l, -1, 1), across));
  };
  Variable mu = mix(lambda_of(in.lambda_mean), mu_ln, m1);
  Variable var = mix(lambda_of(in.lambda_var), var_ln, v1);
  Variable xs = e::permute(ctx, e::reshape(ctx, x, {batch, tokens, heads, head_dim}), {0, 2, 1, 3});
  Variable xhat = e::div(ctx, e::sub(ctx, xs, mu), e::sqrt(ctx, e::affine(ctx, var, 1, shape.eps)));
  Variable back = e::reshape(ctx, e::permute(ctx, xhat, {0, 2, 1, 3}), {batch, tokens, channels});
  Variable y = e::add(ctx, e::mul(ctx, back, in.weight), in.bias);
  return e::cast(ctx, y, input.dtype());
}

}  // namespace dtn::ops::reference
