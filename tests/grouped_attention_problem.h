// Problems of attention inside groups for the kernel tests: sizes, positions of heads in the
// arrays, and numbers that bfloat16 represents exactly, so every type has the same numbers.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/grouped_attention/grouped_attention.h"
#include "tensors.h"

namespace dtn::test {

struct GroupedSize {
  std::int64_t b, h, g, q, s, dk, dv;
  enum Layout {
    kHeadByHead,  // q, k and v of a head adjacent; one array of queries and keys
    kPartByPart,  // q of all heads, then k, then v; one array
    kTwoArrays,   // queries; and keys, with k and v of a head adjacent
  };
  Layout layout = kTwoArrays;
  bool bias = false;
  int regions = 0;          // per group; 0: no penalties
  std::int64_t unused = 3;  // columns that belong to no head, at both ends

  bool one_array() const { return layout != kTwoArrays; }
  std::int64_t query_columns() const { return 2 * unused + h * (one_array() ? 2 * dk + dv : dk); }
  std::int64_t key_columns() const {
    return one_array() ? query_columns() : 2 * unused + h * (dk + dv);
  }
  Shape queries_shape() const { return {b, g * q, query_columns()}; }
  Shape keys_shape() const { return {b, g * s, key_columns()}; }
  Shape out_shape() const { return {b, g * q, h, dv}; }
  Shape lse_shape() const { return {b, g, h, q}; }
  Shape bias_shape() const { return {h, q, s}; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(dk)); }

  // First column of a part (q, k, v are 0, 1, 2), and the stride from head to head.
  std::array<std::int64_t, 2> columns(int part) const {
    switch (layout) {
      case kHeadByHead: return {unused + part * dk, 2 * dk + dv};
      case kPartByPart: return {unused + part * h * dk, part == 2 ? dv : dk};
      default: return {unused + (part == 2 ? dk : 0), part == 0 ? dk : dk + dv};
    }
  }
};

inline std::string to_string(const GroupedSize& s) {
  return cat("B ", s.b, " H ", s.h, " G ", s.g, " Q ", s.q, " S ", s.s, " Dk ", s.dk, " Dv ", s.dv,
             " layout ", static_cast<int>(s.layout), s.bias ? " biased" : "", " regions ",
             s.regions);
}

// Addresses of the arrays of a problem and of its results.
struct GroupedArrays {
  void *queries, *keys, *tokens, *regions, *bias, *dout;
  void *out, *lse, *dqueries, *dkeys, *dbias;
};

inline GroupedAttentionProblem grouped_problem(const GroupedSize& s, DType dtype,
                                               const GroupedArrays& a) {
  GroupedAttentionProblem p{};
  p.dtype = dtype;
  p.batch = s.b, p.heads = s.h, p.groups = s.g, p.queries = s.q, p.keys = s.s;
  p.key_dim = s.dk, p.value_dim = s.dv, p.scale = s.scale();
  p.tokens = static_cast<const std::int64_t*>(a.tokens);
  p.regions = static_cast<const float*>(a.regions);
  p.bias = a.bias;
  const auto [q, q_stride] = s.columns(0);
  const auto [k, k_stride] = s.columns(1);
  const auto [v, v_stride] = s.columns(2);
  const void* keys = s.one_array() ? a.queries : a.keys;
  p.q = {a.queries, s.query_columns(), q, q_stride};
  p.k = {keys, s.key_columns(), k, k_stride};
  p.v = {keys, s.key_columns(), v, v_stride};
  return p;
}

inline GroupedAttentionForward grouped_forward(const GroupedSize& s, DType dtype,
                                               const GroupedArrays& a) {
  return {grouped_problem(s, dtype, a), a.out, a.lse};
}

inline GroupedAttentionBackward grouped_backward(const GroupedSize& s, DType dtype,
                                                 const GroupedArrays& a) {
  GroupedAttentionBackward back{};
  back.problem = grouped_problem(s, dtype, a);
  back.out = a.out, back.lse = a.lse, back.dout = a.dout;
  void* dkeys = s.one_array() ? a.dqueries : a.dkeys;
  const GroupedAttentionProblem& p = back.problem;
  back.dq = {a.dqueries, p.q.ld, p.q.first, p.q.stride};
  back.dk = {dkeys, p.k.ld, p.k.first, p.k.stride};
  back.dv = {dkeys, p.v.ld, p.v.first, p.v.stride};
  back.dbias = a.dbias;
  return back;
}

// A problem size with its numbers, in float64.
struct GroupedInputs {
  GroupedSize size;
  Tensor queries, keys, bias, dout;
  Tensor tokens, regions;  // undefined with one group, or without regions
  Tensor dbias_before;     // initial value of the bias gradient

  explicit GroupedInputs(const GroupedSize& s, double spread = 2)
      : size(s),
        queries(representable(random_tensor(s.queries_shape(), 1, spread))),
        dout(representable(random_tensor(s.out_shape(), 3))) {
    if (!s.one_array()) keys = representable(random_tensor(s.keys_shape(), 2, spread));
    if (s.bias) {
      bias = representable(random_tensor(s.bias_shape(), 4, 2));
      dbias_before = representable(random_tensor(s.bias_shape(), 5));
    }
    if (s.g == 1) return;
    // A permutation of the tokens, and regions of similar sizes.
    const std::int64_t count = s.g * s.q;
    tokens = Tensor::empty({s.g, s.q}, DType::kInt64);
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.data<std::int64_t>()[i] = (i + 3) * (count - 1) % count;
    }
    if (s.regions == 0) return;
    regions = Tensor::empty({s.g, s.q}, DType::kFloat32);
    for (std::int64_t i = 0; i < count; ++i) {
      // The first group has one region, like most windows of a grid.
      const std::int64_t region = i < s.q ? 7 : i % s.q * s.regions / s.q;
      regions.data<float>()[i] = static_cast<float>(region);
    }
  }
};

}  // namespace dtn::test
