#include "ops/attention/attention_parts.h"

#include "dtn/ops/primitive.h"
#include "kernels/pointwise/drop_threshold.h"

namespace dtn::ops {
using namespace primitive;

void check_lengths(const char* op, const Tensor& lengths, const Variable& x) {
  if (!lengths.defined()) return;
  DTN_CHECK(lengths.shape() == Shape({x.dim(0)}) && lengths.dtype() == DType::kInt64 &&
                lengths.device() == x.device(),
            op, ": lengths ", to_string(lengths.shape()), " ", name_of(lengths.dtype()),
            " are not [", x.dim(0), "] int64 on the device of their tokens");
  if (lengths.device() != kCpu) return;
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    const std::int64_t length = lengths.data<std::int64_t>()[b];
    DTN_CHECK(0 <= length && length <= x.dim(1), op, ": sample ", b, " is ", length,
              " tokens long, but has room for ", x.dim(1));
  }
}

const std::int64_t* raw_lengths(const Tensor& lengths) {
  return lengths.defined() ? static_cast<const std::int64_t*>(lengths.raw()) : nullptr;
}

AttentionDropout attention_dropout(const Context& ctx, double p, std::uint32_t stream) {
  if (!ctx.training() || p == 0) return {};
  return {p, ctx.rng.key(stream), ctx.rng.device_step, ctx.rng.first_sample, ctx.rng.rows};
}

Variable heads_of(Context& ctx, const Variable& x, std::int64_t heads, std::int64_t parts,
                  std::int64_t part) {
  std::int64_t batch = x.dim(0), tokens = x.dim(1), head_dim = x.dim(2) / (parts * heads);
  Variable split =
      permute(ctx, reshape(ctx, upcast(ctx, x), {batch, tokens, parts, heads, head_dim}),
              {2, 0, 3, 1, 4});  // [parts, B, H, T, D]
  return reshape(ctx, narrow(ctx, split, 0, part, part + 1), {batch, heads, tokens, head_dim});
}

Variable weighted(Context& ctx, const Variable& weights, const Variable& v) {
  Variable out = matmul(ctx, weights, v);
  return reshape(ctx, permute(ctx, out, {0, 2, 1, 3}),
                 {out.dim(0), out.dim(2), out.dim(1) * out.dim(3)});
}

Variable without_pads(Context& ctx, const Variable& x, const Tensor& lengths) {
  if (!lengths.defined()) return x;
  const std::vector<std::int64_t> valid = host_lengths(lengths, x.dim(0), x.dim(1));
  const Variable condition(
      host_constant({x.dim(0), x.dim(1), 1}, x.dtype(), x.device(), [&](std::int64_t i) {
        return i % x.dim(1) < valid[static_cast<std::size_t>(i / x.dim(1))] ? 1.0 : 0.0;
      }));
  return where(ctx, condition, x, full({1}, x.dtype(), x.device(), 0));
}

Variable penalty_of_pads(const Tensor& lengths, std::int64_t tokens, DType dtype, Device device) {
  const std::vector<std::int64_t> valid = host_lengths(lengths, lengths.dim(0), tokens);
  return constant_from({lengths.dim(0), 1, 1, tokens}, dtype, device,
                       [&](std::int64_t b, auto, auto, std::int64_t i) {
                         return i < valid[static_cast<std::size_t>(b)] ? 0.0f : kUnseen;
                       });
}

Variable dropout_factors(const AttentionDropout& dropout, const Shape& shape, DType dtype,
                         Device device) {
  PhiloxKey key = dropout.key;
  DTN_CHECK(
      !dropout.step && !(dropout.rows && device != kCpu),
      "the reference of attention draws its masks on the host, so a captured step cannot use it");
  const std::uint32_t threshold = drop_threshold(dropout.p);
  const Variable kept = constant_from(
      shape, dtype, device, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        const auto group = attention_drop_group(dropout.row(b), shape[1], h, i, j);
        return philox_group(key, group).v[i % 4] >> 8 >= threshold ? 1.0 : 0.0;
      });
  Context plain;
  return affine(plain, kept, dropout.kept());
}

Variable relative_offsets(std::int64_t grid_h, std::int64_t grid_w, DType dtype, Device device,
                          int sign) {
  const std::int64_t tokens = grid_h * grid_w;
  return Variable(host_constant({tokens * tokens, 3}, dtype, device, [=](std::int64_t element) {
    const std::int64_t i = element / 3 / tokens, j = element / 3 % tokens;
    const auto dx = static_cast<double>(sign * (j % grid_w - i % grid_w));
    const auto dy = static_cast<double>(sign * (j / grid_w - i / grid_w));
    return element % 3 == 0 ? dx : element % 3 == 1 ? dy : dx * dx + dy * dy;
  }));
}

}  // namespace dtn::ops
