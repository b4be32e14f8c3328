// Compares attention inside groups, fused and reference, in float32 and bfloat16 with the reference
// in float64, at the sizes of the hierarchical models.
#include "dtn/ops/grouped_attention.h"

#include "grouped_attention_cases.h"
#include "op_runs.h"

namespace dtn {
namespace {

using test::GroupedCase;
using test::Input;
using test::Op;

void compare(const GroupedCase& c) {
  std::vector<Input> inputs = {Input::activation(c.queries, 1, 2)};
  if (!c.one()) inputs.push_back(Input::activation(c.keys, 2, 2));
  if (c.bias.rank()) inputs.push_back(Input::weight(c.bias, 3));
  auto on = [&](auto op) {
    return Op([&, op](Context& ctx, const std::vector<Variable>& v) { return c.run(op, ctx, v); });
  };
  const Op fused = on(ops::grouped_attention), reference = on(ops::reference::grouped_attention);
  const auto want = test::run_op(reference, inputs, DType::kFloat64);
  // The longest sum is the bias gradient, over samples and groups, or a sum over keys.
  const std::int64_t groups = c.how.groups ? c.how.groups->count() : 1;
  const double exact =
      test::float32_tolerance(std::max(c.queries[0] * groups, c.queries[1] / groups) + 64);
  // Stored in bfloat16: probabilities and out; in the backward pass ds and the gradient.
  const double rounded = test::bfloat16_tolerance(4);
  test::expect_close(test::run_op(fused, inputs, DType::kFloat32), want, exact,
                     c.name + ", float32");
  test::expect_close(test::run_op(fused, inputs, DType::kBFloat16), want, rounded,
                     c.name + ", bfloat16");
  test::expect_close(test::run_op(reference, inputs, DType::kFloat32), want, exact,
                     c.name + ", float32 reference");
  test::expect_close(test::run_op(reference, inputs, DType::kBFloat16), want, rounded,
                     c.name + ", bfloat16 reference");
}

TEST(GroupedAttentionParity, Swin) {
  compare(test::swin_case(2, 14, 14, 7, 0, 3, 32));
  compare(test::swin_case(2, 14, 14, 7, 3, 3, 32));
  compare(test::swin_case(1, 14, 21, 7, 3, 2, 32));
}

TEST(GroupedAttentionParity, Pvt) {
  compare(test::pvt_case(1, 784, 49, 2, 64));
  compare(test::pvt_case(2, 50, 50, 3, 64));
}

TEST(GroupedAttentionParity, Levit) {
  compare(test::levit_case(2, 196, 4, 16, 32));
  compare(test::levit_shrink_case(2, 49, 196, 8, 16, 64));
}

TEST(GroupedAttentionParity, T2t) { compare(test::t2t_case(1, 784, 64, 1 / std::sqrt(147.0))); }

}  // namespace
}  // namespace dtn
