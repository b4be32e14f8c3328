// Checks convolutions and poolings of tokens, and their references, against central differences in
// float64.
#include "dtn/ops/convolution.h"

#include "gradcheck/ops/op_gradients.h"
#include "primitive_cases.h"

namespace dtn {
namespace {

using test::check;
using test::check_both;
using test::Inputs;
using test::Op;
using test::random_tensor;

// Grids whose sides divide and do not, and the same grid.
const std::array<std::array<std::int64_t, 2>, 2> kPyramids[] = {
    {{{6, 4}, {3, 2}}}, {{{7, 5}, {4, 3}}}, {{{3, 3}, {1, 2}}}, {{{2, 3}, {2, 3}}}};

TEST(ConvolutionGradients, Convolutions) {
  struct Size {
    const char* name;
    std::int64_t h, w, channels;
    Shape weight;
    primitive::Conv2d how;
  };
  const Size sizes[] = {{"3x3", 4, 5, 3, {4, 3, 3, 3}, {{1, 1}, {1, 1}}},
                        {"strided", 5, 4, 2, {3, 2, 3, 3}, {{2, 2}, {1, 1}}},
                        {"patches", 4, 5, 2, {3, 2, 2, 2}, {{2, 2}, {0, 0}}},
                        {"pointwise", 2, 3, 4, {3, 4, 1, 1}, {}},
                        {"grouped", 3, 3, 4, {6, 2, 3, 3}, {{1, 1}, {1, 1}, 2}},
                        {"depthwise", 4, 3, 5, {5, 1, 3, 3}, {{1, 1}, {1, 1}, 5}},
                        {"depthwise strided", 5, 6, 3, {3, 1, 3, 3}, {{2, 2}, {1, 1}, 3}}};
  for (const Size& s : sizes) {
    for (bool with_bias : {true, false}) {
      auto on = [&](auto op) {
        return Op([&, op](Context& c, const Inputs& v) {
          return op(c, v[0], s.h, s.w, v[1], with_bias ? v[2] : Variable(), s.how);
        });
      };
      std::vector<Tensor> inputs = {random_tensor({2, s.h * s.w, s.channels}, 1),
                                    random_tensor(s.weight, 2)};
      if (with_bias) inputs.push_back(random_tensor({s.weight[0]}, 3));
      check_both(s.name, on(ops::convolution), on(ops::reference::convolution), inputs);
    }
  }
}

TEST(ConvolutionGradients, Pools) {
  const std::pair<const char*, primitive::Pool2d> pools[] = {
      {"halves", {{2, 2}, {2, 2}}},
      {"overlapping", {{3, 3}, {2, 2}, {1, 1}}},
      {"uneven", {{3, 2}, {1, 3}, {2, 0}}},
      {"inside", {{3, 3}, {2, 1}, {1, 1}, false}}};
  for (const auto& [name, pool] : pools) {
    auto on = [&how = pool](auto op) {
      return Op([op, &how](Context& c, const Inputs& v) { return op(c, v[0], 5, 6, how); });
    };
    const std::vector<Tensor> inputs = {test::distinct({2, 30, 4}).value};
    check_both(cat("max_pool ", name), on(ops::max_pool), on(ops::reference::max_pool), inputs);
    check_both(cat("avg_pool ", name), on(ops::avg_pool), on(ops::reference::avg_pool), inputs);
  }
}

TEST(ConvolutionGradients, Gathers) {
  struct Split {
    std::int64_t k, stride, padding;
  };
  for (const Split& s : {Split{3, 2, 1}, Split{7, 4, 2}, Split{2, 2, 0}}) {
    auto on = [&](auto op) {
      return Op([&, op](Context& c, const Inputs& v) {
        return op(c, v[0], 7, 6, s.k, s.stride, s.padding);
      });
    };
    check_both(cat("soft_split by ", s.k), on(ops::soft_split), on(ops::reference::soft_split),
               {random_tensor({2, 42, 3}, 4)});
  }
  for (std::int64_t step : {1, 2, 3}) {
    auto on = [&](auto op) {
      return Op([&, op](Context& c, const Inputs& v) { return op(c, v[0], 5, 4, step); });
    };
    check_both(cat("every_nth of ", step), on(ops::every_nth), on(ops::reference::every_nth),
               {random_tensor({2, 20, 3}, 5)});
  }
}

TEST(ConvolutionGradients, Upsampling) {
  for (const auto& [fine, coarse] : kPyramids) {
    const auto on = [&, fine = fine, coarse = coarse](auto op) {
      return Op([=](Context& c, const Inputs& v) { return op(c, v[0], fine, v[1], coarse); });
    };
    check_both(cat("upsample_add to ", fine[0], " x ", fine[1]), on(ops::upsample_add),
               on(ops::reference::upsample_add),
               {random_tensor({2, fine[0] * fine[1], 3}, 6),
                random_tensor({2, coarse[0] * coarse[1], 3}, 7)});
    const auto joined = [&, fine = fine, coarse = coarse](auto op) {
      return Op([=](Context& c, const Inputs& v) { return op(c, v[0], coarse, v[1], fine); });
    };
    check_both(cat("upsample_join to ", fine[0], " x ", fine[1]), joined(ops::upsample_join),
               joined(ops::reference::upsample_join),
               {random_tensor({2, coarse[0] * coarse[1], 3}, 7),
                random_tensor({2, fine[0] * fine[1], 2}, 8)});
  }
}

}  // namespace
}  // namespace dtn
