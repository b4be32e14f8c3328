// Every primitive operation with inputs to test: odd shapes, broadcasts, primes, one sample.
// Gradient checks and comparisons of types and devices use this table.
#pragma once

#include "dtn/ops/primitive.h"
#include "op_runs.h"

namespace dtn::test {

struct PrimitiveCase {
  std::string name;
  Op op;
  std::vector<Input> inputs;
  std::int64_t terms = 1;  // terms of the longest sum, forward or backward
};

// Values away from 0, for division, logarithm and square root.
inline Input positive(const Shape& shape, std::uint32_t stream) {
  return Input::activation(shape, stream, 0.5, 1.2);
}

// Multiples of 1/64; any 251 consecutive elements differ. A maximum that two values share has no
// slope.
inline Input distinct(const Shape& shape) {
  Tensor t = Tensor::empty(shape, DType::kFloat64);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.data<double>()[i] = static_cast<double>(i * 37 % 251 - 125) / 64;
  }
  return {t, false};
}

using UnaryOp = Variable (*)(Context&, const Variable&);
using BinaryOp = Variable (*)(Context&, const Variable&, const Variable&);
using Leaves = std::vector<Variable>;

inline PrimitiveCase unary_case(const char* name, UnaryOp op, Input input) {
  return {name, [op](Context& c, const Leaves& v) { return op(c, v[0]); }, {std::move(input)}};
}
inline PrimitiveCase binary_case(const char* name, BinaryOp op, Input a, Input b,
                                 std::int64_t terms = 1) {
  return {name,
          [op](Context& c, const Leaves& v) { return op(c, v[0], v[1]); },
          {std::move(a), std::move(b)},
          terms};
}

inline void add_elementwise_cases(std::vector<PrimitiveCase>& all) {
  namespace p = primitive;
  auto x = [](const Shape& shape, std::uint32_t stream, double spread = 1) {
    return Input::activation(shape, stream, spread);
  };
  for (PrimitiveCase c : {
           binary_case("add", p::add, x({2, 3, 4}, 1), x({3, 1}, 2), 8),
           binary_case("sub", p::sub, x({4}, 3), x({2, 3, 4}, 4), 6),
           binary_case("mul", p::mul, x({2, 1, 37}, 5), x({3, 1}, 6), 74),
           binary_case("mul_all_alike", p::mul, x({7, 11}, 5), x({7, 11}, 6)),
           binary_case("mul_by_one", p::mul, x({1, 7, 11}, 5), x({1}, 6), 77),
           binary_case("mul_crosswise", p::mul, x({5, 1, 4, 1, 3}, 5), x({2, 1, 3, 1}, 6), 30),
           binary_case("div", p::div, x({2, 3}, 8), positive({1, 3}, 9), 2),
           binary_case("maximum", p::maximum, x({5, 7}, 30), x({7}, 31), 5),
           binary_case("minimum", p::minimum, x({5, 7}, 32), x({5, 1}, 33), 7),
           unary_case("neg", p::neg, x({5}, 34)),
           unary_case("exp", p::exp, x({1009}, 11, 3)),
           unary_case("log", p::log, positive({1009}, 12)),
           unary_case("sqrt", p::sqrt, positive({37}, 13)),
           unary_case("erf", p::erf, x({1009}, 14, 3)),
           unary_case("sigmoid", p::sigmoid, x({37}, 15, 3)),
           unary_case("tanh", p::tanh, x({37}, 35, 2)),
           unary_case("relu", p::relu, x({11}, 16)),
           unary_case("abs", p::abs, x({37}, 36)),
           unary_case("cos", p::cos, x({37}, 37, 3)),
           unary_case("sin", p::sin, x({37}, 38, 3)),
       }) {
    all.push_back(std::move(c));
  }
  all.push_back({"mul_with_itself",
                 [](Context& c, const Leaves& v) { return p::mul(c, v[0], v[0]); },
                 {x({7}, 7)}});
  all.push_back({"affine",
                 [](Context& c, const Leaves& v) { return p::affine(c, v[0], -1.5, 2); },
                 {x({5}, 10)}});
  all.push_back({"power",
                 [](Context& c, const Leaves& v) { return p::power(c, v[0], 1.75); },
                 {positive({37}, 39)}});
  all.push_back({"where",
                 [](Context& c, const Leaves& v) {
                   return p::where(c, p::greater(v[0], p::constant(v[0], 0.25)), v[0], v[1]);
                 },
                 {x({3, 5}, 40), x({2, 1, 5}, 41)},
                 3});
}

inline void add_reduction_cases(std::vector<PrimitiveCase>& all) {
  namespace p = primitive;
  struct Size {
    const char* name;
    Shape shape;
    p::Dims dims;
    std::int64_t terms;
  };
  const Size sizes[] = {{"last", {3, 5, 37}, -1, 37},
                        {"middle", {3, 13, 41}, 1, 13},
                        {"first", {67, 19}, 0, 67},
                        {"outer", {3, 5, 7}, {0, 2}, 21},
                        {"inner", {4, 3, 5, 6}, {1, 3}, 18},
                        {"all", {2, 3, 7}, {0, 1, 2}, 42},
                        {"long_row", {1, 20011}, 1, 20011},
                        {"long_column", {20011, 3}, 0, 20011},
                        {"alternating", {2, 3, 2, 3, 2, 3}, {0, 2, 4}, 8},
                        {"of_one", {3, 1, 4}, 1, 1}};
  for (const Size& s : sizes) {
    auto add = [&](const char* name, auto op, const Input& x) {
      all.push_back({cat(name, "_", s.name),
                     [op, dims = s.dims](Context& c, const Leaves& v) { return op(c, v[0], dims); },
                     {x},
                     s.terms});
    };
    add("sum", p::sum, Input::activation(s.shape, 17));
    add("mean", p::mean, Input::activation(s.shape, 17));
    if (s.terms < 100) add("max", p::max, distinct(s.shape));
  }
  all.push_back(unary_case("softmax", p::softmax, Input::activation({3, 5}, 19, 3)));
  all.push_back(unary_case("softmax_wide", p::softmax, Input::activation({2, 197}, 20, 3)));
  all.push_back(unary_case(
      "softmax_of_one",
      [](Context& c, const Variable& x) {
        return p::add(c, p::softmax(c, p::reshape(c, x, {7, 1})), p::reshape(c, x, {7, 1}));
      },
      Input::activation({7}, 21)));
}

inline void add_moving_cases(std::vector<PrimitiveCase>& all) {
  namespace p = primitive;
  auto add = [&](const char* name, Op op, std::vector<Input> inputs, std::int64_t terms = 1) {
    all.push_back({name, std::move(op), std::move(inputs), terms});
  };
  auto x = [](const Shape& shape, std::uint32_t stream) {
    return Input::activation(shape, stream);
  };
  add("reshape",
      [](Context& c, const Leaves& v) {
        return p::reshape(c, v[0], {4, 3});
      },
      {x({2, 6}, 20)});
  add("permute",
      [](Context& c, const Leaves& v) {
        return p::permute(c, v[0], {2, 0, 3, 1});
      },
      {x({2, 3, 4, 5}, 21)});
  add("transpose",
      [](Context& c, const Leaves& v) {
        return p::permute(c, v[0], {0, 2, 1});
      },
      {x({2, 37, 41}, 22)});
  add("permute_heads",
      [](Context& c, const Leaves& v) {
        return p::permute(c, v[0], {0, -2, 1, 3});
      },
      {x({1, 7, 3, 5}, 22)});
  add(
      "broadcast_to",
      [](Context& c, const Leaves& v) {
        return p::broadcast_to(c, v[0], {4, 3, 5});
      },
      {x({3, 1}, 23)}, 20);
  add("concat", [](Context& c, const Leaves& v) { return p::concat(c, v[0], v[1], 1); },
      {x({2, 3, 4}, 22), x({2, 1, 4}, 23)});
  add("narrow", [](Context& c, const Leaves& v) { return p::narrow(c, v[0], 1, 1, 3); },
      {x({2, 4, 3}, 24)});
  add("narrow_first", [](Context& c, const Leaves& v) { return p::narrow(c, v[0], 0, 1, 3); },
      {x({4, 3}, 24)});
  add("narrow_strided", [](Context& c, const Leaves& v) { return p::narrow(c, v[0], 1, 1, 7, 3); },
      {x({3, 8, 2}, 28)});
  add("pad", [](Context& c, const Leaves& v) { return p::pad(c, v[0], 1, 2, 1, 0.5); },
      {x({3, 5, 2}, 25)});
  add(
      "gather",
      [](Context& c, const Leaves& v) {
        const Tensor index = Tensor::from(std::vector<std::int64_t>{4, 0, 4, 2}, {4});
        return p::gather(c, v[0], 1, index.to(v[0].device()));
      },
      {x({3, 5, 2}, 26)}, 2);
  add("cast",
      [](Context& c, const Leaves& v) { return p::cast(c, p::upcast(c, v[0]), v[0].dtype()); },
      {x({3, 5}, 27)});
}

inline void add_product_cases(std::vector<PrimitiveCase>& all) {
  namespace p = primitive;
  auto matmul = [&](const char* name, const Shape& a, const Shape& b, std::int64_t terms) {
    all.push_back(
        binary_case(name, p::matmul, Input::activation(a, 25), Input::activation(b, 26), terms));
  };
  matmul("matmul", {5, 7}, {7, 3}, 7);
  matmul("matmul_batched", {2, 3, 4, 5}, {2, 3, 5, 7}, 7);
  matmul("matmul_by_one_matrix", {3, 4, 5}, {5, 7}, 12);
  matmul("matmul_of_one_matrix", {4, 5}, {3, 5, 2}, 6);
  matmul("matmul_crosswise", {3, 1, 4, 5}, {1, 2, 5, 3}, 12);
  struct Size {
    const char* name;
    Shape x, weight;
    p::Conv2d how;
  };
  const Size sizes[] = {{"plain", {2, 3, 5, 7}, {4, 3, 3, 2}, {}},
                        {"strided", {1, 3, 7, 8}, {2, 3, 3, 3}, {{2, 3}, {1, 2}}},
                        {"grouped", {2, 4, 6, 5}, {6, 2, 3, 3}, {{1, 1}, {1, 1}, 2}},
                        {"pointwise", {3, 5, 4, 3}, {7, 5, 1, 1}, {}},
                        {"pointwise_grouped", {2, 6, 4, 3}, {4, 3, 1, 1}, {{1, 1}, {0, 0}, 2}},
                        {"pointwise_strided", {2, 3, 5, 5}, {4, 3, 1, 1}, {{2, 2}, {0, 0}}},
                        {"patches", {2, 3, 8, 4}, {5, 3, 4, 4}, {{4, 4}, {0, 0}}},
                        {"depthwise", {2, 3, 7, 7}, {3, 1, 3, 3}, {{1, 1}, {1, 1}, 3}},
                        {"depthwise_wide", {1, 2, 5, 83}, {2, 1, 5, 3}, {{1, 1}, {2, 1}, 2}},
                        {"depthwise_strided", {2, 2, 9, 11}, {2, 1, 3, 5}, {{2, 3}, {1, 2}, 2}},
                        {"depthwise_padded", {1, 2, 4, 5}, {2, 1, 2, 2}, {{1, 1}, {3, 2}, 2}}};
  for (const Size& s : sizes) {
    all.push_back(
        {cat("conv2d_", s.name),
         [how = s.how](Context& c, const Leaves& v) { return p::conv2d(c, v[0], v[1], v[2], how); },
         {Input::activation(s.x, 40), Input::weight(s.weight, 41),
          Input::weight({s.weight[0]}, 42)},
         s.x.numel()});
  }
  const std::pair<const char*, p::Pool2d> pools[] = {{"halves", {{2, 2}, {2, 2}}},
                                                     {"overlapping", {{3, 3}, {2, 2}, {1, 1}}},
                                                     {"uneven", {{3, 2}, {1, 3}, {2, 0}}},
                                                     {"inside", {{3, 3}, {2, 1}, {1, 1}, false}}};
  for (const auto& [name, how] : pools) {
    auto add = [&](const char* kind, auto op) {
      all.push_back({cat(kind, "_", name),
                     [op, how = how](Context& c, const Leaves& v) { return op(c, v[0], how); },
                     {distinct({2, 3, 7, 9})},
                     9});
    };
    add("max_pool2d", p::max_pool2d);
    add("avg_pool2d", p::avg_pool2d);
  }
}

inline std::vector<PrimitiveCase> primitive_cases() {
  std::vector<PrimitiveCase> all;
  add_elementwise_cases(all);
  add_reduction_cases(all);
  add_moving_cases(all);
  add_product_cases(all);
  return all;
}

// Largest error relative to the largest value. In bfloat16, a value that the operation saves is
// rounded once. The gradient may amplify this error by four (1 - y of a sigmoid y, relative to a
// largest slope of 1/4). Then each of two steps rounds.
inline double primitive_tolerance(DType dtype, std::int64_t terms) {
  const double rounding = dtype == DType::kBFloat16 ? 6 * unit_roundoff(dtype) : 0;
  return rounding + 2 * float32_tolerance(std::max<std::int64_t>(terms, 4));
}

}  // namespace dtn::test
