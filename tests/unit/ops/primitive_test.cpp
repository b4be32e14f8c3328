// Primitive operations against plain loops over indices, for all types and numbers of threads.
#include "dtn/ops/primitive.h"

#include <algorithm>
#include <numeric>

#include "primitive_cases.h"

namespace dtn::test {
namespace {

namespace p = primitive;

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};

Tensor input(const Shape& shape, std::uint32_t stream, DType dtype) {
  return as(representable(random_tensor(shape, stream)), dtype);
}

// Element (i0, i1, ...) of a tensor broadcast to a shape with as many dimensions as the index.
double at(const Tensor& t, const std::vector<std::int64_t>& index) {
  std::int64_t flat = 0;
  const auto lead = static_cast<int>(index.size()) - t.rank();
  for (int d = 0; d < t.rank(); ++d) {
    const std::int64_t i = index[static_cast<std::size_t>(d + lead)];
    flat = flat * t.dim(d) + (t.dim(d) == 1 ? 0 : i);
  }
  return element(t, flat);
}

// Calls f(index) for every index of the shape; the last dimension is the fastest.
void for_each_index(const Shape& shape,
                    const std::function<void(const std::vector<std::int64_t>&)>& f) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t n = 0; n < shape.numel(); ++n) {
    f(index);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (++index[static_cast<std::size_t>(d)] < shape[d]) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
  }
}

// Bound for sums of `terms` in the accumulator type, rounded once to `dtype`.
double bound(DType dtype, std::int64_t terms = 1) {
  const DType acc = accumulator_of(dtype);
  return unit_roundoff(dtype) +
         8 * unit_roundoff(acc) * std::sqrt(static_cast<double>(std::max<std::int64_t>(terms, 4)));
}

void expect_near(const Variable& got, const Doubles& want, DType dtype, std::int64_t terms,
                 const std::string& what) {
  EXPECT_EQ(got.dtype(), dtype) << what;
  EXPECT_GT(max_abs(want), 0) << what;
  EXPECT_LE(max_abs_difference(doubles(got.value()), want), bound(dtype, terms) * max_abs(want))
      << what << ", " << name_of(dtype);
}

TEST(Primitive, BroadcastMatchesLoops) {
  Context ctx;
  const std::pair<Shape, Shape> shapes[] = {{{2, 3, 5}, {5}},
                                            {{4, 1, 3}, {2, 1}},
                                            {{7, 11}, {7, 11}},
                                            {{1}, {3, 4}},
                                            {{5, 1, 7, 1}, {3, 1, 13}},
                                            {{3, 1031}, {3, 1}},
                                            {{2, 1, 2, 1, 2, 1}, {2, 1, 3, 1, 5}}};
  for (DType dtype : kTypes) {
    for (const auto& [sa, sb] : shapes) {
      const Variable a(input(sa, 1, dtype)), b(input(sb, 2, dtype));
      const Variable y = p::sub(ctx, a, b);
      Doubles want;
      for_each_index(y.shape(),
                     [&](const auto& i) { want.push_back(at(a.value(), i) - at(b.value(), i)); });
      expect_near(y, want, dtype, 1, cat(to_string(sa), " - ", to_string(sb)));
    }
  }
}

TEST(Primitive, ElementwiseValues) {
  Context ctx;
  struct Function {
    const char* name;
    UnaryOp op;
    double (*exact)(double);
  };
  const Function functions[] = {
      {"exp", p::exp, std::exp},
      {"erf", p::erf, std::erf},
      {"tanh", p::tanh, std::tanh},
      {"cos", p::cos, std::cos},
      {"sin", p::sin, std::sin},
      {"abs", p::abs, std::fabs},
      {"relu", p::relu, [](double v) { return std::max(v, 0.0); }},
      {"log", [](Context& c, const Variable& v) { return p::log(c, p::abs(c, v)); },
       [](double v) { return std::log(std::fabs(v)); }},
      {"sqrt", [](Context& c, const Variable& v) { return p::sqrt(c, p::abs(c, v)); },
       [](double v) { return std::sqrt(std::fabs(v)); }},
      {"power", [](Context& c, const Variable& v) { return p::power(c, v, 3); },
       [](double v) { return v * v * v; }},
      {"sigmoid", p::sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }}};
  for (DType dtype : kTypes) {
    for (const Function& f : functions) {
      for (double spread : {0.01, 1.0, 9.0}) {
        const Variable x(as(representable(random_tensor({1009}, 3, spread)), dtype));
        const Variable y = f.op(ctx, x);
        for (std::int64_t i = 0; i < x.value().numel(); ++i) {
          const double want = f.exact(element(x.value(), i));
          // The error is relative to the value, so small values are accurate too. Near a zero of
          // cosine or logarithm the rounding of the argument dominates.
          const double scale = std::max(std::abs(want), 0.01);
          ASSERT_LE(std::abs(element(y.value(), i) - want), bound(dtype, 4) * scale)
              << f.name << "(" << element(x.value(), i) << "), " << name_of(dtype);
        }
      }
    }
  }
}

TEST(Primitive, PropagatesNaNAndInfinity) {
  Context ctx;
  const double inf = INFINITY, nan = NAN;
  for (DType dtype : kTypes) {
    const Variable x(from_doubles({nan, inf, -inf, 0, 1}, {5}, dtype));
    const Variable one = p::constant(x, 1);
    for (BinaryOp op : {p::maximum, p::minimum, p::add, p::mul}) {
      EXPECT_TRUE(std::isnan(element(op(ctx, x, one).value(), 0)));
      EXPECT_TRUE(std::isnan(element(op(ctx, one, x).value(), 0)));
    }
    for (UnaryOp op : {p::exp, p::log, p::erf, p::sigmoid, p::tanh, p::relu, p::abs, p::sqrt}) {
      EXPECT_TRUE(std::isnan(element(op(ctx, x).value(), 0)));
    }
    EXPECT_EQ(element(p::log(ctx, x).value(), 1), inf);
    EXPECT_EQ(element(p::log(ctx, x).value(), 3), -inf);
    EXPECT_TRUE(std::isnan(element(p::log(ctx, x).value(), 2)));
    EXPECT_EQ(element(p::erf(ctx, x).value(), 1), 1);
    EXPECT_EQ(element(p::erf(ctx, x).value(), 2), -1);
    EXPECT_EQ(element(p::tanh(ctx, x).value(), 2), -1);
    EXPECT_TRUE(std::isnan(element(p::max(ctx, x, 0).value(), 0)));
    EXPECT_TRUE(std::isnan(element(p::sum(ctx, x, 0).value(), 0)));
  }
}

TEST(Primitive, ReductionsMatchLoops) {
  Context ctx;
  struct Size {
    Shape shape;
    p::Dims dims;
  };
  const Size sizes[] = {
      {{3, 5, 37}, -1},       {{3, 13, 300}, 1}, {{1, 7}, 0},    {{4, 3, 5, 6}, {1, 3}},
      {{2, 3, 7}, {0, 1, 2}}, {{1, 30011}, 1},   {{9001, 3}, 0}, {{2, 3, 2, 3, 2, 3}, {1, 3, 5}}};
  for (DType dtype : kTypes) {
    for (const Size& s : sizes) {
      const Variable x(input(s.shape, 4, dtype));
      const Variable sum = p::sum(ctx, x, s.dims), mean = p::mean(ctx, x, s.dims);
      const Variable most = p::max(ctx, x, s.dims);
      std::vector<Doubles> terms(static_cast<std::size_t>(sum.value().numel()));
      for_each_index(s.shape, [&](const auto& index) {
        std::int64_t flat = 0;
        for (int d = 0; d < s.shape.rank(); ++d) {
          flat = flat * sum.dim(d) + (sum.dim(d) == 1 ? 0 : index[static_cast<std::size_t>(d)]);
        }
        terms[static_cast<std::size_t>(flat)].push_back(at(x.value(), index));
      });
      Doubles sums, means, largest;
      for (const Doubles& t : terms) {
        sums.push_back(std::accumulate(t.begin(), t.end(), 0.0));
        means.push_back(sums.back() / static_cast<double>(t.size()));
        largest.push_back(*std::max_element(t.begin(), t.end()));
      }
      const auto n = static_cast<std::int64_t>(terms[0].size());
      expect_near(sum, sums, dtype, n, "sum of " + to_string(s.shape));
      expect_near(mean, means, dtype, n, "mean of " + to_string(s.shape));
      EXPECT_EQ(doubles(most.value()), largest) << to_string(s.shape);
    }
  }
}

TEST(Primitive, ReductionsOfEmptyTensor) {
  Context ctx;
  const Variable x(Tensor::empty({3, 0}, DType::kFloat32));
  EXPECT_EQ(doubles(p::sum(ctx, x, 1).value()), Doubles({0, 0, 0}));
  EXPECT_THROW(p::max(ctx, x, 1), Error);
  EXPECT_EQ(p::add(ctx, x, p::constant(x, 1)).value().numel(), 0);
}

TEST(Primitive, MovesElementsOfEveryType) {
  Context ctx;
  for (DType dtype : kTypes) {
    const Variable x(input({5, 37, 3, 41}, 5, dtype));
    const Variable y = p::permute(ctx, x, {3, 1, 0, 2});
    Doubles want;
    for_each_index(y.shape(), [&](const auto& i) {
      want.push_back(at(x.value(), {i[2], i[1], i[3], i[0]}));
    });
    EXPECT_EQ(doubles(y.value()), want);
    const Variable padded = p::pad(ctx, x, 2, 1, 2, -0.5);
    const Variable inside = p::narrow(ctx, padded, 2, 1, 4);
    EXPECT_TRUE(same_bits(inside.value(), x.value()));
    EXPECT_EQ(at(padded.value(), {4, 3, 0, 2}), -0.5);
    EXPECT_EQ(at(padded.value(), {0, 36, 5, 40}), -0.5);
    const Tensor index = Tensor::from(std::vector<std::int64_t>{36, 0, 36}, {3});
    const Variable chosen = p::gather(ctx, x, 1, index);
    for (std::int64_t r = 0; r < 3; ++r) {
      EXPECT_TRUE(same_bits(p::narrow(ctx, chosen, 1, r, r + 1).value(),
                            p::narrow(ctx, x, 1, r == 1 ? 0 : 36, r == 1 ? 1 : 37).value()));
    }
  }
}

TEST(Primitive, MatmulMatchesLoops) {
  Context ctx;
  const std::pair<Shape, Shape> shapes[] = {{{5, 7}, {7, 3}},
                                            {{1, 1}, {1, 1}},
                                            {{2, 3, 4, 37}, {37, 13}},
                                            {{13, 11}, {4, 11, 5}},
                                            {{3, 1, 4, 5}, {1, 2, 5, 3}}};
  for (DType dtype : kTypes) {
    for (const auto& [sa, sb] : shapes) {
      const Variable a(input(sa, 6, dtype)), b(input(sb, 7, dtype));
      const Variable y = p::matmul(ctx, a, b);
      Doubles want;
      for_each_index(y.shape(), [&](std::vector<std::int64_t> i) {
        double sum = 0;
        for (std::int64_t k = 0; k < a.dim(-1); ++k) {
          std::vector<std::int64_t> left = i, right = i;
          left.back() = right[right.size() - 2] = k;
          sum += at(a.value(), left) * at(b.value(), right);
        }
        want.push_back(sum);
      });
      expect_near(y, want, dtype, a.dim(-1), to_string(sa) + " x " + to_string(sb));
    }
  }
}

struct ConvSize {
  Shape x, weight;
  p::Conv2d how;
};
const ConvSize kConvolutions[] = {{{2, 3, 11, 7}, {4, 3, 3, 2}, {}},
                                  {{1, 3, 7, 8}, {2, 3, 3, 3}, {{2, 3}, {1, 2}}},
                                  {{2, 4, 6, 5}, {6, 2, 3, 3}, {{1, 1}, {1, 1}, 2}},
                                  {{2, 5, 4, 3}, {7, 5, 1, 1}, {}},
                                  {{1, 4, 9, 9}, {4, 2, 1, 1}, {{2, 2}, {0, 0}, 2}},
                                  {{2, 37, 13, 14}, {37, 1, 3, 3}, {{1, 1}, {1, 1}, 37}},
                                  {{1, 3, 17, 97}, {3, 1, 5, 7}, {{1, 1}, {2, 3}, 3}},
                                  {{2, 3, 9, 35}, {3, 1, 3, 3}, {{2, 2}, {1, 1}, 3}},
                                  {{2, 2, 4, 5}, {2, 1, 2, 2}, {{1, 2}, {3, 2}, 2}}};

// The output, and the gradients of input and weight for `dy`, by the definition.
std::vector<Doubles> naive_convolution(const ConvSize& s, const Tensor& x, const Tensor& w,
                                       const Tensor& bias, const Tensor& dy, const Shape& out) {
  Doubles y(static_cast<std::size_t>(out.numel()));
  Doubles dx(static_cast<std::size_t>(x.numel())), dw(static_cast<std::size_t>(w.numel()));
  const std::int64_t per_group = s.weight[0] / s.how.groups;
  std::int64_t flat = 0;
  for_each_index(out, [&](const auto& o) {
    double sum = element(bias, o[1]);
    const double d = element(dy, flat);
    for_each_index({s.weight[1], s.weight[2], s.weight[3]}, [&](const auto& t) {
      const std::int64_t i = o[2] * s.how.stride[0] + t[1] - s.how.padding[0];
      const std::int64_t j = o[3] * s.how.stride[1] + t[2] - s.how.padding[1];
      if (i < 0 || i >= s.x[2] || j < 0 || j >= s.x[3]) return;
      const std::int64_t c = o[1] / per_group * s.weight[1] + t[0];
      const std::int64_t at_x = ((o[0] * s.x[1] + c) * s.x[2] + i) * s.x[3] + j;
      const std::int64_t at_w =
          ((o[1] * s.weight[1] + t[0]) * s.weight[2] + t[1]) * s.weight[3] + t[2];
      sum += element(x, at_x) * element(w, at_w);
      dx[static_cast<std::size_t>(at_x)] += d * element(w, at_w);
      dw[static_cast<std::size_t>(at_w)] += d * element(x, at_x);
    });
    y[static_cast<std::size_t>(flat++)] = sum;
  });
  return {y, dx, dw};
}

TEST(Primitive, Conv2dMatchesLoops) {
  for (DType dtype : kTypes) {
    for (const ConvSize& s : kConvolutions) {
      const DType acc = accumulator_of(dtype);
      const Variable x(input(s.x, 8, dtype), true), w(input(s.weight, 9, acc), true);
      const Variable bias(input({s.weight[0]}, 10, acc), true);
      Tape tape;
      Context ctx;
      ctx.tape = &tape;
      const Variable y = p::conv2d(ctx, x, w, bias, s.how);
      const Tensor dy = input(y.shape(), 11, dtype);
      tape.backward(y, dy.clone());
      const auto want = naive_convolution(s, x.value(), w.value(), bias.value(), dy, y.shape());
      const std::string what = cat(to_string(s.x), " * ", to_string(s.weight));
      const std::int64_t taps = s.weight.numel() / s.weight[0];
      // All sums are in the accumulator type; each result is rounded once.
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_LE(max_abs_difference(doubles(y.value()), want[0]),
                (unit_roundoff(dtype) + bound(acc, taps + 1)) * max_abs(want[0]))
          << what << ", " << name_of(dtype);
      EXPECT_LE(max_abs_difference(doubles(x.grad()), want[1]),
                (unit_roundoff(dtype) + bound(acc, taps * s.weight[0])) * max_abs(want[1]))
          << what << ", " << name_of(dtype);
      EXPECT_EQ(w.grad().dtype(), acc);
      EXPECT_LE(max_abs_difference(doubles(w.grad()), want[2]),
                bound(acc, s.x[0] * s.x[2] * s.x[3]) * max_abs(want[2]))
          << what << ", " << name_of(dtype);
    }
  }
}

TEST(Primitive, PoolsMatchLoops) {
  Context ctx;
  const p::Pool2d pools[] = {{{2, 2}, {2, 2}}, {{3, 3}, {2, 2}, {1, 1}}, {{3, 2}, {1, 3}, {2, 0}}};
  for (DType dtype : kTypes) {
    for (p::Pool2d how : pools) {
      const Variable x(input({2, 3, 11, 8}, 12, dtype));
      const Variable most = p::max_pool2d(ctx, x, how), padded = p::avg_pool2d(ctx, x, how);
      how.count_padding = false;
      const Variable inside = p::avg_pool2d(ctx, x, how);
      Doubles largest, means, inner;
      for_each_index(most.shape(), [&](const auto& o) {
        double best = -INFINITY, sum = 0;
        int count = 0;
        for_each_index({how.kernel[0], how.kernel[1]}, [&](const auto& t) {
          const std::int64_t i = o[2] * how.stride[0] + t[0] - how.padding[0];
          const std::int64_t j = o[3] * how.stride[1] + t[1] - how.padding[1];
          if (i < 0 || i >= 11 || j < 0 || j >= 8) return;
          const double v = at(x.value(), {o[0], o[1], i, j});
          best = std::max(best, v);
          sum += v;
          ++count;
        });
        largest.push_back(best);
        means.push_back(sum / static_cast<double>(how.kernel[0] * how.kernel[1]));
        inner.push_back(sum / count);
      });
      EXPECT_EQ(doubles(most.value()), largest);
      expect_near(padded, means, dtype, 9, "average with padding");
      expect_near(inside, inner, dtype, 9, "average inside");
    }
  }
}

// Every primitive in float32 and bfloat16, with gradients, against float64.
TEST(Primitive, RequiresMatchingTypes) {
  for (const PrimitiveCase& c : primitive_cases()) {
    const auto want = run_op(c.op, c.inputs, DType::kFloat64);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      expect_close(run_op(c.op, c.inputs, dtype), want, primitive_tolerance(dtype, c.terms),
                   cat(c.name, ", ", name_of(dtype)));
    }
  }
}

TEST(Primitive, SameBitsForAnyNumberOfThreads) {
  for (const PrimitiveCase& c : primitive_cases()) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      std::vector<Doubles> first;
      for (int threads : kThreadCounts) {
        Threads scope(threads);
        auto results = run_op(c.op, c.inputs, dtype);
        if (first.empty()) first = results;
        EXPECT_EQ(results, first) << c.name << " on " << threads << " threads";
      }
    }
  }
}

TEST(Primitive, BFloat16AndFloat32GiveFloat32) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable x(input({3, 5}, 13, DType::kBFloat16), true);
  const Variable w(input({5}, 14, DType::kFloat32), true);
  const Variable y = p::mul(ctx, x, w);
  EXPECT_EQ(y.dtype(), DType::kFloat32);
  tape.backward(y, input({3, 5}, 15, DType::kFloat32));
  EXPECT_EQ(x.grad().dtype(), DType::kBFloat16);
  EXPECT_EQ(w.grad().dtype(), DType::kFloat32);
  const Variable table(input({5, 2}, 16, DType::kFloat32));
  EXPECT_EQ(p::matmul(ctx, x, table).dtype(), DType::kFloat32);
  EXPECT_THROW(p::mul(ctx, x, Variable(input({5}, 17, DType::kFloat64))), Error);
}

TEST(Primitive, TiesShareGradientOrUseFirst) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable x(from_doubles({1, 3, 3, 2}, {4}, DType::kFloat32), true);
  tape.backward(p::max(ctx, x, 0), from_doubles({1}, {1}, DType::kFloat32));
  EXPECT_EQ(doubles(x.grad()), Doubles({0, 0.5, 0.5, 0}));
  const Variable a(from_doubles({2}, {1}, DType::kFloat32), true);
  const Variable b(from_doubles({2}, {1}, DType::kFloat32), true);
  tape.backward(p::minimum(ctx, a, b), from_doubles({1}, {1}, DType::kFloat32));
  EXPECT_EQ(doubles(a.grad()), Doubles({1}));
  EXPECT_EQ(doubles(b.grad()), Doubles({0}));
}

TEST(Primitive, RejectsInvalidArguments) {
  Context ctx;
  const Variable x(input({2, 3, 4, 5}, 18, DType::kFloat32));
  EXPECT_THROW(p::sum(ctx, x, 4), Error);
  EXPECT_THROW(p::permute(ctx, x, {0, 1, 2}), Error);
  EXPECT_THROW(p::permute(ctx, x, {0, 1, 2, 2}), Error);
  EXPECT_THROW(p::narrow(ctx, x, 1, 2, 4), Error);
  EXPECT_THROW(p::concat(ctx, x, Variable(input({2, 3, 4, 6}, 19, DType::kFloat32)), 1), Error);
  EXPECT_THROW(p::broadcast_to(ctx, x, {2, 3, 4, 6}), Error);
  EXPECT_THROW(p::matmul(ctx, x, x), Error);
  EXPECT_THROW(p::gather(ctx, x, 1, Tensor::from(std::vector<std::int64_t>{3}, {1})), Error);
  const Variable w(input({4, 3, 3, 3}, 20, DType::kFloat32));
  EXPECT_THROW(p::conv2d(ctx, x, w, {}, {{1, 1}, {0, 0}, 2}), Error);
  EXPECT_THROW(p::conv2d(ctx, x, Variable(input({4, 3, 5, 3}, 21, DType::kFloat32)), {}), Error);
  EXPECT_THROW(p::max_pool2d(ctx, x, {{2, 2}, {2, 2}, {2, 0}}), Error);
}

}  // namespace
}  // namespace dtn::test
