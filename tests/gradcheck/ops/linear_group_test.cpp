// Gradients of linear layers that share their input, against central differences.
#include "ops/gemm/linear_group.h"

#include <gtest/gtest.h>

#include "dtn/autograd/gradcheck.h"
#include "dtn/ops/primitive.h"
#include "tensors.h"

namespace dtn {
namespace {

// Three layers of 4 -> 6. The second layer's first columns are read by nobody.
Variable group_of_three(Context& ctx, const std::vector<Variable>& in) {
  const ops::LinearGroup group(ctx, in[0], {in[1], in[2], in[3]}, {in[4], in[5], in[6]});
  const auto [a, b] = group.part<2>(ctx, 0, {4, 2});
  const auto [unread, c] = group.part<2>(ctx, 1, {1, 5});
  const auto [d, e, f, g] = group.part<4>(ctx, 2, {1, 2, 1, 2});
  Variable all = primitive::concat(ctx, a, b, 1);
  for (const Variable& part : {c, d, e, f, g}) all = primitive::concat(ctx, all, part, 1);
  return primitive::mul(ctx, all, all);
}

TEST(LinearGroup, Gradients) {
  std::vector<Tensor> inputs{test::random_tensor({5, 4}, 1)};
  for (std::uint32_t i = 0; i < 3; ++i) inputs.push_back(test::random_tensor({6, 4}, 2 + i));
  for (std::uint32_t i = 0; i < 3; ++i) inputs.push_back(test::random_tensor({6}, 5 + i));
  const GradcheckResult result = gradcheck(group_of_three, inputs);
  EXPECT_LE(result.max_relative_error, 1e-8) << result.worst;
  EXPECT_GT(result.smallest_gradient, 1e-2);
}

}  // namespace
}  // namespace dtn
