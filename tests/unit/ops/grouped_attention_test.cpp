// Attention within groups beyond its values: errors, columns with gradients, multiply-adds.
#include "dtn/ops/grouped_attention.h"

#include "core/meta_device.h"
#include "grouped_attention_cases.h"
#include "tensors.h"

namespace dtn {
namespace {

using test::GroupedCase;
using test::random_tensor;

void run(const GroupedCase& c) {
  Context ctx;
  std::vector<Variable> inputs = {Variable(random_tensor(c.queries, 1))};
  if (!c.one()) inputs.emplace_back(random_tensor(c.keys, 2));
  if (c.bias.rank()) inputs.emplace_back(random_tensor(c.bias, 3));
  c.run(ops::grouped_attention, ctx, inputs);
}

// Expects a valid case to fail after `change`.
template <class Change>
void expect_refused(GroupedCase c, Change&& change) {
  EXPECT_NO_THROW(run(c));
  change(c);
  EXPECT_THROW(run(c), Error);
}

TEST(GroupedAttention, RejectsInvalidShapes) {
  const GroupedCase pvt = test::pvt_case(2, 12, 3, 2, 4);
  expect_refused(pvt, [](GroupedCase& c) { c.keys = {1, 3, 16}; });
  expect_refused(pvt, [](GroupedCase& c) { c.keys = {2, 0, 16}; });
  expect_refused(pvt, [](GroupedCase& c) { c.keys = {2, 3, 15}; });
  expect_refused(pvt, [](GroupedCase& c) { c.how.heads = 0; });
  expect_refused(pvt, [](GroupedCase& c) { c.how.q.first = 1; });
  expect_refused(pvt, [](GroupedCase& c) { c.how.q.width = 3; });
  expect_refused(pvt, [](GroupedCase& c) { c.how.v.first = 7; });  // past the last column
  expect_refused(pvt, [](GroupedCase& c) { c.how.k.stride = 0; });
  expect_refused(pvt, [](GroupedCase& c) { c.bias = {2, 12, 4}; });
  const GroupedCase swin = test::swin_case(1, 4, 4, 2, 1, 2, 3);
  expect_refused(swin, [](GroupedCase& c) { c.queries = {1, 12, 18}; });
  expect_refused(swin, [](GroupedCase& c) { c.bias = {2, 16, 16}; });
  expect_refused(swin, [](GroupedCase& c) { c.how.v.first = 0; });  // the queries' columns
}

TEST(GroupedAttention, RejectsMismatchedTypes) {
  const GroupedCase c = test::levit_case(1, 4, 2, 3, 2);
  Context ctx;
  const Variable qkv(test::as(random_tensor(c.queries, 1), DType::kBFloat16));
  const Tensor bias = random_tensor(c.bias, 2);
  EXPECT_THROW(ops::grouped_attention(ctx, qkv, qkv, Variable(bias), c.how), Error);
  EXPECT_THROW(
      ops::grouped_attention(ctx, qkv, qkv, Variable(test::as(bias, DType::kBFloat16)), c.how),
      Error);
  const Variable narrow(test::as(bias, DType::kFloat32));
  EXPECT_NO_THROW(ops::grouped_attention(ctx, qkv, qkv, narrow, c.how));
}

TEST(TokenGroups, HoldEveryTokenOnce) {
  const std::vector<std::int64_t> good = {3, 1, 0, 2}, twice = {3, 1, 1, 2}, outside = {3, 1, 0, 4};
  const std::vector<std::int64_t> three = {0, 1, 2};
  const auto groups = ops::TokenGroups::make(good, {}, 2, kCpu);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(groups->places.data<std::int64_t>()[good[static_cast<std::size_t>(i)]], i);
  }
  EXPECT_THROW(ops::TokenGroups::make(twice, {}, 2, kCpu), Error);
  EXPECT_THROW(ops::TokenGroups::make(outside, {}, 2, kCpu), Error);
  EXPECT_THROW(ops::TokenGroups::make(good, {}, 3, kCpu), Error);
  EXPECT_THROW(ops::TokenGroups::make(good, three, 2, kCpu), Error);
  EXPECT_THROW(ops::TokenGroups::make({}, {}, 1, kCpu), Error);
}

// One variable for queries and keys gets the sum of the two separate gradients.
TEST(GroupedAttention, SharedInputGetsSumOfGradients) {
  const GroupedCase c = test::swin_case(2, 4, 4, 2, 1, 2, 3);
  const Tensor x = random_tensor(c.queries, 1), bias = random_tensor(c.bias, 2);
  auto gradients = [&](const std::vector<Variable>& leaves) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable y =
        ops::grouped_attention(ctx, leaves.front(), leaves.back(), Variable(bias), c.how);
    tape.backward(y, random_tensor(y.shape(), 3));
    test::Doubles sum;
    for (const Variable& leaf : leaves) {
      const test::Doubles g = test::doubles(leaf.grad());
      sum.resize(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
    }
    return sum;
  };
  const test::Doubles one = gradients({Variable(x, true)});
  const test::Doubles two = gradients({Variable(x, true), Variable(x.clone(), true)});
  EXPECT_GT(test::max_abs(one), 0);
  EXPECT_EQ(one, two);
}

TEST(GroupedAttention, UnusedColumnsHaveZeroGradient) {
  const GroupedCase c = test::t2t_case(2, 5, 4, 0.5);
  const Variable x(random_tensor(c.queries, 1), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y = c.run(ops::grouped_attention, ctx, {x});
  tape.backward(y, random_tensor(y.shape(), 2));
  const test::Doubles grad = test::doubles(x.grad());
  const std::size_t columns = static_cast<std::size_t>(c.queries[2]);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    EXPECT_EQ(grad[i] == 0, i % columns >= columns - 2) << i;
  }
}

// Counts both products over the tokens that attend to each other, in every implementation.
TEST(GroupedAttention, CountsMultiplyAddsOnMetaDevice) {
  const GroupedCase c = test::levit_shrink_case(2, 49, 196, 8, 16, 64);
  Context ctx;
  auto leaf = [](const Shape& shape) {
    return Variable(Tensor::empty(shape, DType::kFloat32, kMeta));
  };
  meta_queue().take_work();
  c.run(ops::grouped_attention, ctx, {leaf(c.queries), leaf(c.keys), leaf(c.bias)});
  EXPECT_EQ(meta_queue().take_work().multiply_adds, 2.0 * 8 * 49 * 196 * (16 + 64));
  c.run(ops::reference::grouped_attention, ctx, {leaf(c.queries), leaf(c.keys), leaf(c.bias)});
  EXPECT_EQ(meta_queue().take_work().multiply_adds, 2.0 * 8 * 49 * 196 * (16 + 64));
}

}  // namespace
}  // namespace dtn
