// Every elementary operation against central differences.
#include "dtn/ops/elementary.h"

#include "dtn/autograd/gradcheck.h"
#include "tensors.h"

namespace dtn {
namespace {

namespace e = elementary;
using test::random_tensor;

using Inputs = std::vector<Variable>;

struct Case {
  const char* name;
  std::function<Variable(Context&, const Inputs&)> f;
  std::vector<Tensor> inputs;
};

// Away from 0, for division, logarithm and square root.
Tensor positive(const Shape& shape, std::uint32_t stream) {
  return random_tensor(shape, stream, 0.5, 1.2);
}

std::vector<Case> cases() {
  return {
      {"add",
       [](Context& c, const Inputs& v) { return e::add(c, v[0], v[1]); },
       {random_tensor({2, 3, 4}, 1), random_tensor({3, 1}, 2)}},
      {"sub",
       [](Context& c, const Inputs& v) { return e::sub(c, v[0], v[1]); },
       {random_tensor({4}, 3), random_tensor({2, 3, 4}, 4)}},
      {"mul",
       [](Context& c, const Inputs& v) { return e::mul(c, v[0], v[1]); },
       {random_tensor({2, 1, 4}, 5), random_tensor({3, 1}, 6)}},
      {"mul with itself",
       [](Context& c, const Inputs& v) { return e::mul(c, v[0], v[0]); },
       {random_tensor({7}, 7)}},
      {"div",
       [](Context& c, const Inputs& v) { return e::div(c, v[0], v[1]); },
       {random_tensor({2, 3}, 8), positive({1, 3}, 9)}},
      {"affine",
       [](Context& c, const Inputs& v) { return e::affine(c, v[0], -1.5, 2); },
       {random_tensor({5}, 10)}},
      {"exp",
       [](Context& c, const Inputs& v) { return e::exp(c, v[0]); },
       {random_tensor({5}, 11)}},
      {"log", [](Context& c, const Inputs& v) { return e::log(c, v[0]); }, {positive({5}, 12)}},
      {"sqrt", [](Context& c, const Inputs& v) { return e::sqrt(c, v[0]); }, {positive({5}, 13)}},
      {"erf",
       [](Context& c, const Inputs& v) { return e::erf(c, v[0]); },
       {random_tensor({5}, 14)}},
      {"sigmoid",
       [](Context& c, const Inputs& v) { return e::sigmoid(c, v[0]); },
       {random_tensor({5}, 15)}},
      {"clamp_at_zero",
       [](Context& c, const Inputs& v) { return e::clamp_at_zero(c, v[0]); },
       {random_tensor({11}, 16)}},
      {"sum",
       [](Context& c, const Inputs& v) { return e::sum(c, v[0], 1); },
       {random_tensor({2, 3, 4}, 17)}},
      {"mean",
       [](Context& c, const Inputs& v) { return e::mean(c, v[0], -1); },
       {random_tensor({2, 3, 4}, 18)}},
      {"softmax",
       [](Context& c, const Inputs& v) { return e::softmax(c, v[0]); },
       {random_tensor({3, 5}, 19, 3)}},
      {"reshape",
       [](Context& c, const Inputs& v) {
         return e::reshape(c, v[0], {4, 3});
       },
       {random_tensor({2, 6}, 20)}},
      {"permute",
       [](Context& c, const Inputs& v) {
         return e::permute(c, v[0], {2, 0, 3, 1});
       },
       {random_tensor({2, 3, 4, 5}, 21)}},
      {"concat",
       [](Context& c, const Inputs& v) { return e::concat(c, v[0], v[1], 1); },
       {random_tensor({2, 3, 4}, 22), random_tensor({2, 1, 4}, 23)}},
      {"narrow",
       [](Context& c, const Inputs& v) { return e::narrow(c, v[0], 1, 1, 3); },
       {random_tensor({2, 4, 3}, 24)}},
      {"matmul",
       [](Context& c, const Inputs& v) { return e::matmul(c, v[0], v[1]); },
       {random_tensor({2, 3, 4, 5}, 25), random_tensor({2, 3, 5, 7}, 26)}},
  };
}

TEST(ElementaryGradients, MatchCentralDifferences) {
  for (const Case& c : cases()) {
    GradcheckResult r = gradcheck(c.f, c.inputs);
    EXPECT_LE(r.max_relative_error, 1e-6) << c.name << ": " << r.worst;
    EXPECT_GT(r.smallest_gradient, 0) << c.name;
  }
}

TEST(ElementaryValues, BroadcastAsInNumpy) {
  Context ctx;
  Variable a(Tensor::from<double>(std::vector<double>{1, 2}, {2, 1}));
  Variable b(Tensor::from<double>(std::vector<double>{10, 20, 30}, {3}));
  Variable y = e::sub(ctx, b, a);
  EXPECT_EQ(y.shape(), Shape({2, 3}));
  EXPECT_EQ(test::doubles(y.value()), (test::Doubles{9, 19, 29, 8, 18, 28}));
  EXPECT_THROW(e::add(ctx, Variable(random_tensor({2, 3}, 1)), Variable(random_tensor({2}, 2))),
               Error);
}

TEST(ElementaryValues, MoveElementsAsTold) {
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
