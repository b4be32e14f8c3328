// Compares attention over padded sequences, dense and sparse, in float32 and bfloat16 with its
// reference, dense attention with a mask, in float64.
#include "op_runs.h"
#include "sparse_attention_cases.h"

namespace dtn {
namespace {

using ops::SparseVariant;
using test::BlockCase;
using test::HashedCase;
using test::Input;
using test::Op;

void compare(const std::string& name, const Op& fused, const Op& reference,
             const std::vector<Input>& inputs, const Context& base = {}) {
  const auto want = test::run_op(reference, inputs, DType::kFloat64, base);
  test::expect_close(test::run_op(fused, inputs, DType::kFloat64, base), want, 1e-12,
                     name + " float64");
  test::expect_close(test::run_op(fused, inputs, DType::kFloat32, base), want, 1e-5,
                     name + " float32");
  // Stored in bfloat16: normalized keys, probabilities, out; in the backward pass ds and dqkv.
  test::expect_close(test::run_op(fused, inputs, DType::kBFloat16, base), want,
                     test::bfloat16_tolerance(5), name + " bfloat16");
}

TEST(SparseAttentionParity, DenseWithLengths) {
  using Variables = std::vector<Variable>;
  Context training;
  training.mode.training = true;
  for (double dropout : {0.0, 0.1}) {
    const ops::AttentionOptions options{
        .lengths = test::lengths_of({601, 197, 1}), .dropout = dropout, .stream = 7};
    compare(
        cat("dropout ", dropout),
        [&](Context& c, const Variables& v) { return ops::attention(c, v[0], 2, options); },
        [&](Context& c, const Variables& v) {
          return ops::reference::attention(c, v[0], 2, options);
        },
        {Input::activation({3, 601, 3 * 2 * 48}, 14, 2)}, training);
  }
}

void compare(const BlockCase& c) {
  compare(
      c.name,
      [&](Context& ctx, const std::vector<Variable>& v) {
        return c.run(ops::block_attention, ctx, v);
      },
      [&](Context& ctx, const std::vector<Variable>& v) {
        return c.run(ops::reference::block_attention, ctx, v);
      },
      {{c.qkv(2)}});
}

TEST(SparseAttentionParity, Blocks) {
  for (SparseVariant variant : {SparseVariant::kClean, SparseVariant::kLra}) {
    const std::string name = variant == SparseVariant::kLra ? "lra" : "clean";
    compare({name, 2, 2, 32, test::pattern_options(640, 2, 64, 3, variant), {640, 333}});
    compare({name + ", odd", 1, 3, 20, test::pattern_options(307, 3, 16, 2, variant), {}});
    // Rows that attend to more keys than are processed at a time.
    compare({name + ", long rows", 1, 1, 16, test::pattern_options(1090, 1, 96, 3, variant), {}});
  }
}

void compare(const HashedCase& c) {
  compare(
      c.name,
      [&](Context& ctx, const std::vector<Variable>& v) {
        return c.run(ops::hashed_attention, ctx, v);
      },
      [&](Context& ctx, const std::vector<Variable>& v) {
        return c.run(ops::reference::hashed_attention, ctx, v);
      },
      {{c.qk(1e-5)}, {c.v()}});
}

TEST(SparseAttentionParity, Hashes) {
  for (SparseVariant variant : {SparseVariant::kClean, SparseVariant::kLra}) {
    const std::string name = variant == SparseVariant::kLra ? "lra" : "clean";
    compare({name, 2, 203, 2, 16, 1, 10, variant, {203, 120}});
    compare({name + ", rounds", 1, 150, 2, 16, 2, 6, variant, {}});
    // Chunks with more keys than are processed at a time.
    compare({name + ", long chunks", 1, 620, 1, 8, 1, 2, variant, {}});
  }
}

}  // namespace
}  // namespace dtn
