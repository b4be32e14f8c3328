#include "dtn/ops/grouped_attention.h"

#include <algorithm>
#include <vector>

#include "dtn/ops/primitive.h"
#include "kernels/grouped_attention/grouped_attention.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {
namespace {

// Columns of a tensor that heads take. Each column is taken at most once, so its gradient comes
// from one product.
class TakenColumns {
 public:
  explicit TakenColumns(const Variable& x) : shape_(x.shape()) {
    taken_.resize(static_cast<std::size_t>(x.dim(2)));
  }

  void take(const char* name, const HeadColumns& columns, std::int64_t heads) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t first = columns.first + h * columns.stride;
      DTN_CHECK(columns.width > 0 && 0 <= first && first + columns.width <= shape_[2],
                "grouped_attention: ", name, " of head ", h, ", ", columns.width,
                " columns starting at ", first, ", are not in ", to_string(shape_));
      for (std::int64_t c = first; c < first + columns.width; ++c) {
        DTN_CHECK(!taken_[static_cast<std::size_t>(c)], "grouped_attention: ", name, " of head ", h,
                  " share column ", c, " of ", to_string(shape_), " with others");
        taken_[static_cast<std::size_t>(c)] = true;
      }
    }
  }
  bool all() const { return std::find(taken_.begin(), taken_.end(), false) == taken_.end(); }

 private:
  Shape shape_;
  std::vector<bool> taken_;
};

bool same(const Variable& a, const Variable& b) {
  return a.value().raw() == b.value().raw() && a.shape() == b.shape() && a.sink() == b.sink();
}

// Numbers of groups, and of queries and keys in a group.
struct GroupSizes {
  std::int64_t groups, queries, keys;
  bool all_queries, all_keys;  // true: heads take all columns
};

GroupSizes check(const Variable& queries, const Variable& keys, const Variable& bias,
                 const GroupedAttention& how) {
  DTN_CHECK(queries.value().rank() == 3 && keys.value().rank() == 3 &&
                queries.dim(0) == keys.dim(0) && keys.dim(1) > 0,
            "grouped_attention: queries ", to_string(queries.shape()), " and keys ",
            to_string(keys.shape()), " are not [B, Q, *] and [B, S, *]");
  DTN_CHECK(queries.dtype() == keys.dtype() && queries.device() == keys.device(),
            "grouped_attention: queries are ", name_of(queries.dtype()), " on ",
            to_string(queries.device()), ", keys ", name_of(keys.dtype()), " on ",
            to_string(keys.device()));
  DTN_CHECK(how.heads > 0 && how.q.width == how.k.width, "grouped_attention: ", how.heads,
            " heads with queries ", how.q.width, " and keys ", how.k.width, " wide");
  TakenColumns of_queries(queries), of_keys(keys);
  const bool one = same(queries, keys);
  of_queries.take("queries", how.q, how.heads);
  if (one) of_keys = of_queries;
  of_keys.take("keys", how.k, how.heads);
  of_keys.take("values", how.v, how.heads);
  GroupSizes sizes{1, queries.dim(1), keys.dim(1), of_queries.all(), of_keys.all()};
  if (how.groups) {
    const TokenGroups& groups = *how.groups;
    sizes.groups = groups.count();
    sizes.queries = sizes.keys = groups.size();
    DTN_CHECK(queries.dim(1) == keys.dim(1) && sizes.groups * sizes.queries == queries.dim(1),
              "grouped_attention: ", sizes.groups, " groups of ", sizes.queries,
              " tokens do not match ", queries.dim(1), " queries and ", keys.dim(1), " keys");
    DTN_CHECK(groups.tokens.device() == queries.device(), "grouped_attention: the groups are on ",
              to_string(groups.tokens.device()), ", the queries on ", to_string(queries.device()));
  }
  const DType wanted = accumulator_of(queries.dtype());
  DTN_CHECK(!bias.defined() || (bias.shape() == Shape({how.heads, sizes.queries, sizes.keys}) &&
                                bias.dtype() == wanted && bias.device() == queries.device()),
            "grouped_attention: the bias ", to_string(bias.shape()), " ", name_of(bias.dtype()),
            " is not [", how.heads, ", ", sizes.queries, ", ", sizes.keys, "] ", name_of(wanted));
  return sizes;
}

HeadsOfRows<const void*> heads_in(const Tensor& x, const HeadColumns& columns) {
  return {x.raw(), x.dim(2), columns.first, columns.stride};
}
HeadsOfRows<void*> heads_in(Tensor& x, const HeadColumns& columns) {
  return {x.raw(), x.dim(2), columns.first, columns.stride};
}

GroupedAttentionProblem problem_of(const Tensor& queries, const Tensor& keys, const Tensor& bias,
                                   const GroupedAttention& how, const GroupSizes& sizes) {
  GroupedAttentionProblem p{};
  p.dtype = queries.dtype();
  p.batch = queries.dim(0), p.heads = how.heads;
  p.groups = sizes.groups, p.queries = sizes.queries, p.keys = sizes.keys;
  p.key_dim = how.k.width, p.value_dim = how.v.width;
  p.scale = how.scale;
  if (how.groups) p.tokens = static_cast<const std::int64_t*>(how.groups->tokens.raw());
  if (how.groups && how.groups->has_regions()) {
    p.regions = static_cast<const float*>(how.groups->regions.raw());
  }
  if (bias.defined()) p.bias = bias.raw();
  p.q = heads_in(queries, how.q), p.k = heads_in(keys, how.k), p.v = heads_in(keys, how.v);
  return p;
}

Tensor gradient_of(const Tensor& x, bool all_columns) {
  return all_columns ? Tensor::empty_like(x) : Tensor::zeros(x.shape(), x.dtype(), x.device());
}

}  // namespace

std::shared_ptr<const TokenGroups> TokenGroups::make(std::span<const std::int64_t> tokens,
                                                     std::span<const std::int64_t> regions,
                                                     std::int64_t groups, Device device) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  DTN_CHECK(groups > 0 && count > 0 && count % groups == 0, count,
            " tokens are not divisible into ", groups, " groups");
  DTN_CHECK(regions.empty() || regions.size() == tokens.size(), "token groups: ", regions.size(),
            " regions for ", count, " tokens");
  std::vector<std::int64_t> places(tokens.size(), -1);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t token = tokens[i];
    DTN_CHECK(0 <= token && token < count && places[static_cast<std::size_t>(token)] < 0,
              "token groups: token ", token, " of ", count, " appears twice, or does not exist");
    places[static_cast<std::size_t>(token)] = static_cast<std::int64_t>(i);
  }
  auto made = std::make_shared<TokenGroups>();
  made->tokens = Tensor::from(tokens, {groups, count / groups}).to(device);
  made->places = Tensor::from(places, {count}).to(device);
  if (!regions.empty()) {
    const std::vector<float> numbers(regions.begin(), regions.end());
    made->regions = Tensor::from(numbers, {groups, count / groups}).to(device);
  }
  return made;
}

Variable grouped_attention(Context& ctx, const Variable& queries, const Variable& keys,
                           const Variable& bias, const GroupedAttention& how) {
  const GroupSizes sizes = check(queries, keys, bias, how);
  const bool wide = how.k.width > kMaxGroupedHead || how.v.width > kMaxGroupedHead;
  if (queries.device().type == DeviceType::kCuda && wide) {
    return reference::grouped_attention(ctx, queries, keys, bias, how);
  }
  const DType acc = accumulator_of(queries.dtype());
  const Device device = queries.device();
  const Tensor bias_value = bias.value();
  const std::int64_t batch = queries.dim(0);
  Tensor out =
      Tensor::empty({batch, queries.dim(1), how.heads * how.v.width}, queries.dtype(), device);
  Tensor lse = Tensor::empty({batch, sizes.groups, how.heads, sizes.queries}, acc, device);
  run_on(device,
         GroupedAttentionForward{problem_of(queries.value(), keys.value(), bias_value, how, sizes),
                                 out.raw(), lse.raw()});
  return ctx.record(
      "grouped_attention", out, {&queries, &keys, &bias},
      [=, one = same(queries, keys), q = queries.value(), k = keys.value(), to_q = queries.sink(),
       to_k = keys.sink(), to_bias = bias.sink()](const Tensor& dout) {
        Tensor dq = gradient_of(q, one ? sizes.all_keys : sizes.all_queries);
        Tensor dk = one ? dq : gradient_of(k, sizes.all_keys);
        GroupedAttentionBackward back{problem_of(q, k, bias_value, how, sizes),
                                      out.raw(),
                                      lse.raw(),
                                      dout.raw(),
                                      heads_in(dq, how.q),
                                      heads_in(dk, how.k),
                                      heads_in(dk, how.v),
                                      nullptr};
        if (bias_value.defined())
          back.dbias = buffer_or_null(to_bias, bias_value.shape(), acc, device);
        run_on(device, back);
        if (one) dk = Tensor();
        if (to_q) to_q->accumulate(std::move(dq));
        if (to_k && !one) to_k->accumulate(std::move(dk));
      });
}

namespace reference {
using namespace primitive;
namespace {

// Returns the columns of all heads, with tokens ordered by groups: x [B, T, *] -> [B G, H, n, D].
Variable heads_of(Context& ctx, const Variable& x, const HeadColumns& columns,
                  const GroupedAttention& how, std::int64_t groups) {
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < how.heads * columns.width; ++i) {
    index.push_back(columns.first + i / columns.width * columns.stride + i % columns.width);
  }
  const auto count = static_cast<std::int64_t>(index.size());
  Variable y = gather(ctx, upcast(ctx, x), 2, Tensor::from(index, {count}).to(x.device()));
  if (how.groups) y = gather(ctx, y, 1, how.groups->tokens.reshape({-1}));
  y = reshape(ctx, y, {x.dim(0) * groups, x.dim(1) / groups, how.heads, columns.width});
  return permute(ctx, y, {0, 2, 1, 3});
}

// Returns [1, G, 1, n, n]: kRegionPenalty if two tokens of a group are in different regions, else
// 0.
Variable penalty_of(Context& ctx, const TokenGroups& groups, DType dtype) {
  const std::int64_t g = groups.count(), n = groups.size();
  const Variable region = cast(ctx, Variable(groups.regions), dtype);
  const Variable difference =
      sub(ctx, reshape(ctx, region, {1, g, 1, n, 1}), reshape(ctx, region, {1, g, 1, 1, n}));
  return affine(ctx, greater(abs(ctx, difference), full({1}, dtype, region.device(), 0)),
                kRegionPenalty);
}

// [B G, H, n, n]
Variable weights_of(Context& ctx, const Variable& queries, const Variable& keys,
                    const Variable& bias, const GroupedAttention& how, const GroupSizes& sizes) {
  const std::int64_t batch = queries.dim(0);
  const Variable q = heads_of(ctx, queries, how.q, how, sizes.groups);
  const Variable k = heads_of(ctx, keys, how.k, how, sizes.groups);
  Variable scores = affine(ctx, matmul(ctx, q, permute(ctx, k, {0, 1, 3, 2})), how.scale);
  if (bias.defined()) {
    scores = add(ctx, scores, reshape(ctx, bias, {1, how.heads, sizes.queries, sizes.keys}));
  }
  if (how.groups && how.groups->has_regions()) {
    const Shape flat = scores.shape();
    scores = reshape(ctx, scores, {batch, sizes.groups, how.heads, sizes.queries, sizes.keys});
    scores = reshape(ctx, add(ctx, scores, penalty_of(ctx, *how.groups, scores.dtype())), flat);
  }
  return softmax(ctx, scores);
}

}  // namespace

Variable grouped_attention(Context& ctx, const Variable& queries, const Variable& keys,
                           const Variable& bias, const GroupedAttention& how) {
  const GroupSizes sizes = check(queries, keys, bias, how);
  const Variable weights = weights_of(ctx, queries, keys, bias, how, sizes);
  const Variable v = heads_of(ctx, keys, how.v, how, sizes.groups);
  Variable out = permute(ctx, matmul(ctx, weights, v), {0, 2, 1, 3});
  out = reshape(ctx, out, {queries.dim(0), queries.dim(1), how.heads * how.v.width});
  if (how.groups) out = gather(ctx, out, 1, how.groups->places);
  return cast(ctx, out, queries.dtype());
}

}  // namespace reference

Variable grouped_attention_weights(Context& ctx, const Variable& queries, const Variable& keys,
                                   const Variable& bias, const GroupedAttention& how) {
  return reference::weights_of(ctx, queries, keys, bias, how, check(queries, keys, bias, how));
}

}  // namespace dtn::ops
