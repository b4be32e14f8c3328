// Problems of attention over padded sequences: dense, by blocks and by hash.
#pragma once

#include <functional>
#include <limits>

#include "dtn/ops/attention.h"
#include "dtn/ops/sparse_attention.h"
#include "tensors.h"

namespace dtn::test {

inline Tensor lengths_of(const std::vector<std::int64_t>& lengths) {
  return Tensor::from(lengths, {static_cast<std::int64_t>(lengths.size())});
}

// Returns the smallest lead of the winning direction of a hash, over all valid tokens.
inline double smallest_lead(const Tensor& qk, const Tensor& rotations, std::int64_t heads,
                            const std::vector<std::int64_t>& lengths) {
  const std::int64_t dim = rotations.dim(0), rounds = rotations.dim(1), half = rotations.dim(2);
  double smallest = std::numeric_limits<double>::infinity();
  for (std::int64_t row = 0; row < qk.dim(0) * qk.dim(1) * heads; ++row) {
    const std::int64_t token = row / heads % qk.dim(1), sample = row / heads / qk.dim(1);
    if (!lengths.empty() && token >= lengths[static_cast<std::size_t>(sample)]) continue;
    for (std::int64_t r = 0; r < rounds; ++r) {
      Doubles z;
      for (std::int64_t j = 0; j < half; ++j) {
        double sum = 0;
        for (std::int64_t d = 0; d < dim; ++d) {
          sum += element(qk, row * dim + d) * element(rotations, (d * rounds + r) * half + j);
        }
        z.push_back(sum);
        z.push_back(-sum);
      }
      std::sort(z.begin(), z.end());
      smallest = std::min(smallest, z[z.size() - 1] - z[z.size() - 2]);
    }
  }
  return smallest;
}

struct HashedCase {
  std::string name;
  std::int64_t batch, tokens, heads, dim, hashes, buckets;
  ops::SparseVariant variant = ops::SparseVariant::kClean;
  std::vector<std::int64_t> lengths{};  // empty: all tokens are valid

  ops::HashedAttention how() const { return {heads, variant}; }
  Tensor length_tensor() const { return lengths.empty() ? Tensor() : lengths_of(lengths); }
  Shape shape() const { return {batch, tokens, heads * dim}; }
  Tensor rotations() const {
    return as(representable(random_tensor({dim, hashes, buckets / 2}, 70)), DType::kFloat32);
  }
  // Returns values for which every hash leads by more than `lead`; bfloat16 represents them
  // exactly.
  Tensor qk(double lead, double spread = 1) const {
    const bool lra = variant == ops::SparseVariant::kLra;
    for (std::uint32_t stream = 100; stream < 2100; ++stream) {
      const Tensor x = representable(random_tensor(shape(), stream, spread));
      const auto counted = lra ? std::vector<std::int64_t>() : lengths;
      if (smallest_lead(x, rotations(), heads, counted) > lead) return x;
    }
    ADD_FAILURE() << name << ": no inputs whose hashes lead by " << lead;
    return {};
  }
  Tensor v() const { return representable(random_tensor(shape(), 71)); }
  template <class F>
  Variable run(const F& op, Context& ctx, const std::vector<Variable>& x) const {
    return op(ctx, x[0], x[1], rotations(), how(), length_tensor());
  }
};

struct BlockCase {
  std::string name;
  std::int64_t batch, heads, dim;
  ops::BlockPattern::Options pattern;
  std::vector<std::int64_t> lengths{};

  Tensor length_tensor() const { return lengths.empty() ? Tensor() : lengths_of(lengths); }
  Tensor qkv(double spread = 1) const {
    return representable(random_tensor({batch, pattern.tokens, 3 * heads * dim}, 72, spread));
  }
  template <class F>
  Variable run(const F& op, Context& ctx, const std::vector<Variable>& x) const {
    return op(ctx, x[0], *ops::BlockPattern::make(pattern), length_tensor());
  }
};

inline ops::BlockPattern::Options pattern_options(
    std::int64_t tokens, std::int64_t heads, std::int64_t block, std::int64_t random,
    ops::SparseVariant variant = ops::SparseVariant::kClean) {
  return {.tokens = tokens,
          .heads = heads,
          .block = block,
          .random = random,
          .layer = 1,
          .variant = variant};
}

}  // namespace dtn::test
