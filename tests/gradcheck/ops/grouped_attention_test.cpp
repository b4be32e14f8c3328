// Checks attention inside groups and its reference against central differences in float64.
#include "dtn/ops/grouped_attention.h"

#include "gradcheck/ops/op_gradients.h"
#include "grouped_attention_cases.h"

namespace dtn {
namespace {

using test::GroupedCase;
using test::Inputs;
using test::random_tensor;

std::vector<Tensor> inputs_of(const GroupedCase& c) {
  std::vector<Tensor> inputs = {random_tensor(c.queries, 1, 1.5)};
  if (!c.one()) inputs.push_back(random_tensor(c.keys, 2, 1.5));
  if (c.bias.rank()) inputs.push_back(random_tensor(c.bias, 3));
  return inputs;
}

void check(const GroupedCase& c) {
  test::check_both(
      c.name, [&](Context& ctx, const Inputs& v) { return c.run(ops::grouped_attention, ctx, v); },
      [&](Context& ctx, const Inputs& v) {
        return c.run(ops::reference::grouped_attention, ctx, v);
      },
      inputs_of(c));
}

TEST(GroupedAttentionGradients, EveryModel) {
  check(test::swin_case(2, 4, 6, 2, 0, 2, 3));
  check(test::swin_case(1, 4, 6, 2, 1, 3, 4));
  check(test::pvt_case(2, 12, 3, 2, 5));
  check(test::levit_case(2, 9, 2, 2, 4));
  check(test::levit_shrink_case(2, 4, 9, 3, 2, 5));
  check(test::t2t_case(2, 7, 4, 0.3));
}

// All inputs except one may be fixed.
TEST(GroupedAttentionGradients, EachInputAlone) {
  const GroupedCase c = test::levit_shrink_case(2, 4, 9, 3, 2, 5);
  const std::vector<Tensor> inputs = inputs_of(c);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    test::check(cat(c.name, ", input ", i),
                [&](Context& ctx, const Inputs& v) {
                  Inputs all(inputs.begin(), inputs.end());
                  all[i] = v[0];
                  return c.run(ops::grouped_attention, ctx, all);
                },
                {inputs[i]});
  }
}

}  // namespace
}  // namespace dtn
