// Checks the contrastive loss and L2 normalization against central differences in float64.
#include "dtn/ops/contrastive.h"

#include "dtn/ops/norm.h"
#include "dtn/ops/primitive.h"
#include "gradcheck/ops/op_gradients.h"

namespace dtn {
namespace {

using test::check_both;
using test::Inputs;
using test::Op;
using test::random_tensor;

TEST(ContrastiveGradients, L2Normalize) {
  const auto on = [](auto op) {
    return Op([op](Context& c, const Inputs& v) { return op(c, v[0]); });
  };
  for (std::int64_t channels : {2, 13, 64}) {
    check_both("l2_normalize", on(ops::l2_normalize), on(ops::reference::l2_normalize),
               {random_tensor({2, 3, channels}, 1)});
  }
}

TEST(ContrastiveGradients, Contrastive) {
  ops::Contrast how;
  for (const std::vector<std::int64_t>& labels : {std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 1},
                                                  {3, 3, 3, 3, 3, 3, 3},
                                                  {0, 1, 2, 0, 1, 3, 4}}) {
    how.labels = Tensor::from(labels, {7});
    for (double base : {0.3, 0.07}) {
      how.temperature = 0.3;
      how.base_temperature = base;
      check_both(
          "contrastive",
          [&](Context& c, const Inputs& v) { return ops::contrastive(c, v[0], how).loss; },
          [&](Context& c, const Inputs& v) { return ops::reference::contrastive(c, v[0], how); },
          {random_tensor({7, 5}, 2, 0.6)});
    }
  }
}

// The head of supervised contrastive learning ends in these two.
TEST(ContrastiveGradients, ContrastiveOfNormalizedRows) {
  ops::Contrast how;
  how.temperature = how.base_temperature = 0.2;
  how.labels = Tensor::from(std::vector<std::int64_t>{0, 0, 1, 1, 2, 2}, {6});
  const auto on = [&](auto normalize, auto contrast) {
    return Op([=](Context& c, const Inputs& v) { return contrast(c, normalize(c, v[0])); });
  };
  test::check("contrastive of l2_normalize",
              on(ops::l2_normalize,
                 [&](Context& c, const Variable& z) { return ops::contrastive(c, z, how).loss; }),
              {random_tensor({6, 9}, 3)});
}

}  // namespace
}  // namespace dtn
