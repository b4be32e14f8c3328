// Checks every primitive operation against central differences.
#include "dtn/autograd/gradcheck.h"
#include "primitive_cases.h"

namespace dtn {
namespace {

namespace e = primitive;
using test::random_tensor;

TEST(PrimitiveGradients, MatchCentralDifferences) {
  for (const test::PrimitiveCase& c : test::primitive_cases()) {
    std::vector<Tensor> inputs;
    for (const test::Input& input : c.inputs) inputs.push_back(input.value);
    const GradcheckResult r = gradcheck(c.op, inputs);
    EXPECT_LE(r.max_relative_error, 1e-6) << c.name << ": " << r.worst;
    EXPECT_GT(r.smallest_gradient, 0) << c.name;
  }
}

TEST(PrimitiveValues, BroadcastLikeNumpy) {
  Context ctx;
  Variable a(Tensor::from<double>(std::vector<double>{1, 2}, {2, 1}));
  Variable b(Tensor::from<double>(std::vector<double>{10, 20, 30}, {3}));
  Variable y = e::sub(ctx, b, a);
  EXPECT_EQ(y.shape(), Shape({2, 3}));
  EXPECT_EQ(test::doubles(y.value()), (test::Doubles{9, 19, 29, 8, 18, 28}));
  EXPECT_THROW(e::add(ctx, Variable(random_tensor({2, 3}, 1)), Variable(random_tensor({2}, 2))),
               Error);
}

TEST(PrimitiveValues, PermuteNarrowAndConcat) {
  Context ctx;
  Variable x(Tensor::from<double>(std::vector<double>{0, 1, 2, 3, 4, 5}, {1, 2, 3}));
  Variable t = e::permute(ctx, x, {2, 0, 1});
  EXPECT_EQ(t.shape(), Shape({3, 1, 2}));
  EXPECT_EQ(test::doubles(t.value()), (test::Doubles{0, 3, 1, 4, 2, 5}));
  Variable n = e::narrow(ctx, x, 2, 1, 3);
  EXPECT_EQ(test::doubles(n.value()), (test::Doubles{1, 2, 4, 5}));
  Variable c = e::concat(ctx, n, x, -1);
  EXPECT_EQ(test::doubles(c.value()), (test::Doubles{1, 2, 0, 1, 2, 4, 5, 3, 4, 5}));
}

}  // namespace
}  // namespace dtn
