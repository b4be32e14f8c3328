#include "ops/attention/attention_parts.h"

#include "dtn/ops/primitive.h"
#include "kernels/pointwise/drop_threshold.h"

namespace dtn::ops {
using namespace primitive;
namespace {

Variable constant_of(const std::vector<float>& values, const Shape& shape, DType dtype,
                     Device device) {
  Context plain;
  return cast(plain, Variable(Tensor::from(values, shape).to(device)), dtype);
}

}  // namespace

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
  std::vector<float> valid;
  for (std::int64_t length : host_lengths(lengths, x.dim(0), x.dim(1))) {
    for (std::int64_t i = 0; i < x.dim(1); ++i) valid.push_back(i < length ? 1.0f : 0.0f);
  }
  const Variable condition = constant_of(valid, {x.dim(0), x.dim(1), 1}, x.dtype(), x.device());
  return where(ctx, condition, x, full({1}, x.dtype(), x.device(), 0));
}

Variable penalty_of_pads(const Tensor& lengths, std::int64_t tokens, DType dtype, Device device) {
  std::vector<float> penalty;
  const std::int64_t batch = lengths.dim(0);
  for (std::int64_t length : host_lengths(lengths, batch, tokens)) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      penalty.push_back(i < length ? 0.0f : static_cast<float>(kUnseen));
    }
  }
  return constant_of(penalty, {batch, 1, 1, tokens}, dtype, device);
}

Variable dropout_factors(const AttentionDropout& dropout, const Shape& shape, DType dtype,
                         Device device) {
  PhiloxKey key = dropout.key;
  DTN_CHECK(
      !dropout.step && !(dropout.rows && device != kCpu),
      "the reference of attention draws its masks on the host, so a captured step cannot use it");
  const std::uint32_t threshold = drop_threshold(dropout.p);
  std::vector<float> kept(static_cast<std::size_t>(shape.numel()));
  auto at = kept.begin();
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      for (std::int64_t i = 0; i < shape[2]; ++i) {
        for (std::int64_t j = 0; j < shape[3]; ++j) {
          const auto group = attention_drop_group(dropout.row(b), shape[1], h, i, j);
          *at++ = philox_group(key, group).v[i % 4] >> 8 >= threshold ? 1.0f : 0.0f;
        }
      }
    }
  }
  Context plain;
  return affine(plain, constant_of(kept, shape, dtype, device), dropout.kept());
}

}  // namespace dtn::ops
