// Checks attention over padded sequences, dense and sparse, and the references against central
// differences in float64.
#include "gradcheck/ops/op_gradients.h"
#include "sparse_attention_cases.h"

namespace dtn {
namespace {

using ops::SparseVariant;
using test::BlockCase;
using test::HashedCase;
using test::Inputs;
using test::random_tensor;

TEST(PaddedAttentionGradients, LengthsAndDropout) {
  for (double dropout : {0.0, 0.3}) {
    const ops::AttentionOptions options{
        .lengths = test::lengths_of({9, 4}), .dropout = dropout, .stream = 5};
    Context training;
    training.mode.training = true;
    test::check_both(
        cat("padded attention, dropout ", dropout),
        [&](Context& c, const Inputs& v) { return ops::attention(c, v[0], 2, options); },
        [&](Context& c, const Inputs& v) { return ops::reference::attention(c, v[0], 2, options); },
        {random_tensor({2, 9, 18}, 15, 1.5)}, training);
  }
}

void check(const BlockCase& c) {
  test::check_both(
      c.name, [&](Context& ctx, const Inputs& v) { return c.run(ops::block_attention, ctx, v); },
      [&](Context& ctx, const Inputs& v) { return c.run(ops::reference::block_attention, ctx, v); },
      {c.qkv(1.5)});
}

TEST(BlockAttentionGradients, BothVariants) {
  for (SparseVariant variant : {SparseVariant::kClean, SparseVariant::kLra}) {
    const std::string name = variant == SparseVariant::kLra ? "lra" : "clean";
    check({name, 2, 2, 3, test::pattern_options(21, 2, 2, 1, variant)});
    check({name + ", lengths", 2, 2, 3, test::pattern_options(22, 2, 2, 2, variant), {22, 11}});
    check({name + ", all see all", 2, 2, 3, test::pattern_options(11, 2, 2, 3, variant), {11, 6}});
  }
}

void check(const HashedCase& c) {
  test::check_both(
      c.name, [&](Context& ctx, const Inputs& v) { return c.run(ops::hashed_attention, ctx, v); },
      [&](Context& ctx, const Inputs& v) {
        return c.run(ops::reference::hashed_attention, ctx, v);
      },
      {c.qk(2e-3, 1.5), c.v()});
}

TEST(HashedAttentionGradients, BothVariants) {
  for (SparseVariant variant : {SparseVariant::kClean, SparseVariant::kLra}) {
    const std::string name = variant == SparseVariant::kLra ? "lra" : "clean";
    check({name, 2, 13, 2, 3, 1, 4, variant});
    check({name + ", two rounds", 1, 13, 2, 3, 2, 4, variant});
  }
}

TEST(HashedAttentionGradients, Padding) {
  check({"lengths", 2, 14, 2, 3, 1, 4, SparseVariant::kClean, {14, 5}});
  check({"lengths, three rounds", 2, 14, 1, 3, 3, 4, SparseVariant::kClean, {9, 6}});
}

// Each chunk is one token, which attends to the token before it. The neighbour of the first token
// is empty, so this token attends to itself alone; the next token attends to it. All weights are 1,
// so only v has a gradient.
TEST(HashedAttentionGradients, TokenAttendingOnlyToItself) {
  const HashedCase c{"a token a chunk", 1, 5, 1, 3, 1, 6, SparseVariant::kClean, {}};
  const Variable qk(c.qk(2e-3));
  test::check_both(
      c.name,
      [&](Context& ctx, const Inputs& v) {
        return c.run(ops::hashed_attention, ctx, {qk, v[0]});
      },
      [&](Context& ctx, const Inputs& v) {
        return c.run(ops::reference::hashed_attention, ctx, {qk, v[0]});
      },
      {c.v()});
}

}  // namespace
}  // namespace dtn
