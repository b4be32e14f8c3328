#include "kernels/dtn/dtn_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "dtn/core/check.h"
#include "kernels/dtn/dtn_norm_positions.h"
#include "unit/kernels/dtn_problem.h"

DTN_RUN_ON_EACH_ISA(DtnNormForward)
DTN_RUN_ON_EACH_ISA(DtnNormBackward)

namespace dtn::test {
namespace {

using Gradients = DenseDtn::Gradients;

// Properties of a problem besides its shape.
struct Content {
  double mean = 0;
  bool zero_weight = false, constant_rows = false;
  double lambda = -1;  // < 0: different in each head
  double position = 0.3;
  int pool = 1;
};

template <class T>
DenseDtn make_problem(int batch, int grid_h, int grid_w, int channels, int heads,
                      DtnVariant variant = DtnVariant::kPaper, Content content = {}) {
  using A = AccumulatorOf<T>;
  DenseDtn p =
      make_content<T>(batch, grid_h, grid_w, channels, heads, variant, content.pool, content.mean);
  p.pos_weight = normal_doubles<A>(3 * heads, 4, 0, content.position);
  if (content.lambda >= 0) p.lambda_mean.assign(heads, content.lambda);
  if (content.lambda >= 0) p.lambda_var.assign(heads, content.lambda);
  if (content.zero_weight) std::fill(p.weight.begin(), p.weight.end(), 0.0);
  if (content.constant_rows) make_rows_constant(p);
  return p;
}

// Runs the kernels on a problem and keeps all outputs.
template <class T>
struct Fused {
  using A = AccumulatorOf<T>;
  std::vector<T> x, y, dy, dx;
  std::vector<A> weight, bias, lambda_mean, lambda_var, pos_weight;
  std::vector<A> token_mean, token_var, pivot;
  std::vector<double> head_rstd;
  std::vector<A> dweight, dbias, dlambda_mean, dlambda_var, dpos_weight;
  DtnNormForward forward{};
  DtnNormBackward backward{};

  explicit Fused(const DenseDtn& p, const Doubles& cotangent)
      : x(to<T>(p.x)),
        y(p.x.size()),
        dy(to<T>(cotangent)),
        dx(p.x.size()),
        weight(to<A>(p.weight)),
        bias(to<A>(p.bias)),
        lambda_mean(to<A>(p.lambda_mean)),
        lambda_var(to<A>(p.lambda_var)),
        pos_weight(to<A>(p.pos_weight)),
        token_mean(p.batch * p.tokens()),
        token_var(token_mean.size()),
        pivot(p.batch * p.channels),
        head_rstd(p.official ? token_mean.size() * p.heads : 0),
        dweight(p.channels),
        dbias(p.channels),
        dlambda_mean(p.heads),
        dlambda_var(p.heads),
        dpos_weight(3 * p.heads) {
    DtnVariant variant = p.official ? DtnVariant::kOfficial : DtnVariant::kPaper;
    DType dtype = DTypeOf<T>::value;
    double* rstd = p.official ? head_rstd.data() : nullptr;
    const DtnNormArguments both{.dtype = dtype,
                                .batch = p.batch,
                                .grid_h = p.grid_h,
                                .grid_w = p.grid_w,
                                .channels = p.channels,
                                .heads = p.heads,
                                .eps = p.eps,
                                .variant = variant,
                                .pool = p.pool,
                                .x = x.data(),
                                .weight = weight.data(),
                                .lambda_mean = lambda_mean.data(),
                                .lambda_var = lambda_var.data(),
                                .pos_weight = pos_weight.data(),
                                .token_mean = token_mean.data(),
                                .token_var = token_var.data(),
                                .pivot = pivot.data(),
                                .head_rstd = rstd};
    forward = {both, bias.data(), y.data()};
    backward = {both, dy.data()};
    backward.dx = dx.data();
    backward.dweight = dweight.data();
    backward.dbias = dbias.data();
    backward.dlambda_mean = dlambda_mean.data();
    backward.dlambda_var = dlambda_var.data();
    backward.dpos_weight = dpos_weight.data();
  }
  Fused(const Fused&) = delete;  // the argument structs point into this object

  void run(Isa isa) {
    run_on(isa, forward);
    run_on(isa, backward);
  }
  Gradients gradients() const {
    return {doubles(dx),
            doubles(dweight),
            doubles(dbias),
            doubles(dlambda_mean),
            doubles(dlambda_var),
            doubles(dpos_weight),
            {}};
  }
  bool same(const Fused& o) const {
    return same_bits(y, o.y) && same_bits(dx, o.dx) && same_bits(dweight, o.dweight) &&
           same_bits(dbias, o.dbias) && same_bits(dlambda_mean, o.dlambda_mean) &&
           same_bits(dlambda_var, o.dlambda_var) && same_bits(dpos_weight, o.dpos_weight) &&
           same_bits(token_mean, o.token_mean) && same_bits(token_var, o.token_var) &&
           same_bits(pivot, o.pivot) && same_bits(head_rstd, o.head_rstd);
  }
};

template <class T>
void check_against_oracle(const DenseDtn& p, const std::vector<Isa>& list = isas()) {
  const Doubles cotangent = cotangent_of<T>(p), y = p.forward();
  const Gradients expected = p.backward(cotangent);
  for (Isa isa : list) {
    SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", shape_text(p)));
    Fused<T> fused(p, cotangent);
    fused.run(isa);
    EXPECT_LE(error(doubles(fused.y), y), stored_tolerance<T>());
    expect_near<T>(fused.gradients(), expected);
  }
}

struct ShapeCase {
  int batch, grid_h, grid_w, channels, heads;
};
constexpr ShapeCase kShapes[] = {
    {2, 14, 14, 432, 9}, {1, 1, 197, 192, 4}, {3, 7, 7, 192, 4}, {2, 13, 5, 21, 3},
    {1, 1, 31, 48, 2},   {2, 5, 1, 14, 2},    {2, 1, 1, 9, 3},   {1, 16, 16, 34, 2},
    {1, 3, 29, 20, 1},   {1, 28, 17, 24, 8},
};

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class DtnNorm : public ::testing::Test {};
TYPED_TEST_SUITE(DtnNorm, Types);

TYPED_TEST(DtnNorm, MatchesDenseReference) {
  for (const ShapeCase& s : kShapes) {
    for (DtnVariant variant : {DtnVariant::kPaper, DtnVariant::kOfficial}) {
      check_against_oracle<TypeParam>(
          make_problem<TypeParam>(s.batch, s.grid_h, s.grid_w, s.channels, s.heads, variant));
    }
  }
}

TYPED_TEST(DtnNorm, ZeroWeight) {
  for (DtnVariant variant : {DtnVariant::kPaper, DtnVariant::kOfficial}) {
    DenseDtn p = make_problem<TypeParam>(2, 6, 4, 24, 2, variant, {.zero_weight = true});
    const Doubles dy = doubles(normal_values<TypeParam>(p.x.size(), 9));
    EXPECT_GT(largest(p.backward(dy).weight), 1);
    check_against_oracle<TypeParam>(p);
  }
}

TYPED_TEST(DtnNorm, ConstantRows) {
  for (DtnVariant variant : {DtnVariant::kPaper, DtnVariant::kOfficial}) {
    check_against_oracle<TypeParam>(
        make_problem<TypeParam>(2, 6, 4, 24, 2, variant, {.constant_rows = true}));
  }
}

TYPED_TEST(DtnNorm, SharpAndUniformPositions) {
  for (double position : {0.0, 8.0}) {
    check_against_oracle<TypeParam>(
        make_problem<TypeParam>(2, 9, 11, 30, 2, DtnVariant::kPaper, {.position = position}));
  }
}

// Narrow windows as in the local initialization, wide windows, windows centered outside of the
// grid, and windows with the largest weights at the far ends.
TYPED_TEST(DtnNorm, WindowsOfWideGrids) {
  for (auto [grid_h, grid_w] : {std::pair{24, 31}, {56, 17}, {1, 300}}) {
    for (DtnVariant variant : {DtnVariant::kPaper, DtnVariant::kOfficial}) {
      DenseDtn p = make_problem<TypeParam>(2, grid_h, grid_w, 20, 5, variant);
      p.pos_weight = {1, -1,   -1,      // window of 9 tokens
                      8, -16,  -0.125,  // center 32 to the right, 64 above
                      0, 0.25, -0.015625, 0.5, 0, 0, -0.25, 0, 0.03125};
      check_against_oracle<TypeParam>(p);
    }
  }
}

TYPED_TEST(DtnNorm, PooledStatistics) {
  using Sizes = std::array<int, 6>;
  for (auto [batch, grid_h, grid_w, channels, heads, pool] : {Sizes{3, 14, 14, 48, 3, 2},
                                                              {1, 6, 9, 34, 2, 3},
                                                              {2, 2, 10, 5, 1, 2},
                                                              {2, 7, 7, 24, 2, 7},
                                                              {1, 40, 36, 20, 5, 2}}) {
    for (DtnVariant v : {DtnVariant::kPaper, DtnVariant::kOfficial}) {
      check_against_oracle<TypeParam>(
          make_problem<TypeParam>(batch, grid_h, grid_w, channels, heads, v, {.pool = pool}));
    }
  }
}

// The pivot preserves the variance: in float32, 1e6 - 1e6 would leave nothing of it. The official
// variant divides x by its root mean square; the quotients differ only in their last digits.
TEST(DtnNormNumerics, LargeMean) {
  for (DtnVariant variant : {DtnVariant::kPaper, DtnVariant::kOfficial}) {
    for (double mean : {1e3, -1e3}) {
      DenseDtn p = make_problem<float>(2, 14, 14, 432, 9, variant, {.mean = mean});
      check_against_oracle<float>(p);
    }
  }
}

// Exceeds the memory budget for position matrices, so the heads are processed in waves.
TEST(DtnNormNumerics, LongSequence) {
  check_against_oracle<float>(make_problem<float>(1, 1, 2000, 12, 2), {current_isa()});
  check_against_oracle<double>(make_problem<double>(1, 1, 2000, 6, 2), {current_isa()});
}

TEST(DtnNormNumerics, LargeGrid) {
  check_against_oracle<float>(make_problem<float>(1, 40, 33, 32, 2), {current_isa()});
}

TEST(DtnNormNumerics, LambdaOneIsLayerNorm) {
  DenseDtn p = make_problem<float>(2, 5, 7, 36, 3, DtnVariant::kPaper, {.lambda = 1});
  const Doubles dy = doubles(normal_values<float>(p.x.size(), 9));
  for (Isa isa : isas()) {
    Fused<float> fused(p, dy);
    fused.run(isa);
    Doubles expected(p.x.size());
    for (int row = 0; row < p.batch * p.tokens(); ++row) {
      const double* x = &p.x[row * p.channels];
      double mean = 0, var = 0;
      for (int c = 0; c < p.channels; ++c) mean += x[c] / p.channels;
      for (int c = 0; c < p.channels; ++c) var += (x[c] - mean) * (x[c] - mean) / p.channels;
      for (int c = 0; c < p.channels; ++c) {
        expected[row * p.channels + c] =
            p.weight[c] * (x[c] - mean) / std::sqrt(var + p.eps) + p.bias[c];
      }
    }
    EXPECT_LE(error(doubles(fused.y), expected), tolerance<float>()) << name_of(isa);
  }
}

// --- gradients by central differences --------------------------------------------------------

struct Parameter {
  NamedGradient gradient;
  Doubles DenseDtn::*value;
};
constexpr Parameter kParameters[] = {
    {kGradients[0], &DenseDtn::x},          {kGradients[1], &DenseDtn::weight},
    {kGradients[2], &DenseDtn::bias},       {kGradients[3], &DenseDtn::lambda_mean},
    {kGradients[4], &DenseDtn::lambda_var}, {kGradients[5], &DenseDtn::pos_weight},
};

// Central differences of the sum of f(problem) * dy.
template <class F>
Gradients central_differences(DenseDtn p, const Doubles& dy, F&& f) {
  const double step = 1e-5;
  Gradients g;
  for (const auto& [gradient, value] : kParameters) {
    Doubles& values = p.*value;
    for (double& v : values) {
      const double saved = v;
      double total[2];
      for (int side : {0, 1}) {
        v = saved + (side ? step : -step);
        total[side] = 0;
        const Doubles y = f(p);
        for (std::size_t i = 0; i < y.size(); ++i) total[side] += y[i] * dy[i];
      }
      v = saved;
      (g.*gradient.member).push_back((total[1] - total[0]) / (2 * step));
    }
  }
  return g;
}

void expect_close(const Gradients& got, const Gradients& expected, double allowed) {
  for (const auto& [g, value] : kParameters) {
    EXPECT_GT(largest(expected.*g.member), 0.01) << g.name << " is not tested by zeros";
    EXPECT_LE(error(got.*g.member, expected.*g.member), allowed) << g.name;
  }
}

class DtnNormGradient : public ::testing::TestWithParam<DtnVariant> {
 protected:
  DenseDtn problem_ = make_problem<double>(2, 3, 4, 10, 2, GetParam());
  Doubles dy_ = normal_values<double>(static_cast<std::int64_t>(problem_.x.size()), 9);
};

TEST_P(DtnNormGradient, ReferenceMatchesCentralDifferences) {
  expect_close(problem_.backward(dy_),
               central_differences(problem_, dy_, [](const DenseDtn& p) { return p.forward(); }),
               1e-6);
}

TEST_P(DtnNormGradient, KernelMatchesCentralDifferences) {
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    Fused<double> fused(problem_, dy_);
    fused.run(isa);
    auto forward = [&](const DenseDtn& p) {
      Fused<double> shifted(p, dy_);
      run_on(isa, shifted.forward);
      return shifted.y;
    };
    expect_close(fused.gradients(), central_differences(problem_, dy_, forward), 1e-6);
  }
}

// The comparison above must detect a backward pass that is wrong in one place.
TEST_P(DtnNormGradient, DetectsWrongGradients) {
  const Gradients expected = problem_.backward(dy_);
  auto broken = [&](auto&& mutate) {
    Fused<double> fused(problem_, dy_);
    run_on(current_isa(), fused.forward);
    mutate(fused);
    run_on(current_isa(), fused.backward);
    return fused.gradients();
  };
  const Gradients no_token_var =
      broken([](auto& f) { std::fill(f.token_var.begin(), f.token_var.end(), 0.0); });
  EXPECT_GT(error(no_token_var.x, expected.x), 1e-3);
  EXPECT_GT(error(no_token_var.lambda_var, expected.lambda_var), 1e-3);
  const Gradients mirrored = broken([](auto& f) { f.pos_weight[0] = -f.pos_weight[0]; });
  EXPECT_GT(error(mirrored.pos_weight, expected.pos_weight), 1e-3);
  EXPECT_GT(error(mirrored.lambda_mean, expected.lambda_mean), 1e-3);
  const Gradients no_mean = broken([](auto& f) { f.token_mean[3] += 0.1; });
  EXPECT_GT(error(no_mean.weight, expected.weight), 1e-3);
  const Gradients transposed = broken([](auto& f) { std::swap(f.dy[0], f.dy[1]); });
  EXPECT_GT(error(transposed.bias, expected.bias), 1e-3);
}
INSTANTIATE_TEST_SUITE_P(Variants, DtnNormGradient,
                         ::testing::Values(DtnVariant::kPaper, DtnVariant::kOfficial));

// --- contract --------------------------------------------------------------------------------

TYPED_TEST(DtnNorm, SameBitsForAnyNumberOfThreads) {
  for (int batch : {1, 2, 5, 16}) {
    for (DtnVariant variant : {DtnVariant::kPaper, DtnVariant::kOfficial}) {
      DenseDtn p = make_problem<TypeParam>(batch, 6, 10, 60, 3, variant, {.pool = batch % 2 + 1});
      const Doubles dy = doubles(normal_values<TypeParam>(p.x.size(), 9));
      for (Isa isa : isas()) {
        Threads serial(1);
        Fused<TypeParam> reference(p, dy);
        reference.run(isa);
        for (int threads : kThreadCounts) {
          Threads parallel(threads);
          Fused<TypeParam> fused(p, dy);
          fused.run(isa);
          EXPECT_TRUE(fused.same(reference)) << name_of(isa) << " B " << batch << ", " << threads;
        }
      }
    }
  }
}

TYPED_TEST(DtnNorm, AccumulatesParameterGradientsAndAddsResidualGradient) {
  using A = AccumulatorOf<TypeParam>;
  for (auto [variant, pool] : {std::pair{DtnVariant::kPaper, 1},
                               {DtnVariant::kOfficial, 1},
                               {DtnVariant::kPaper, 2},
                               {DtnVariant::kOfficial, 2}}) {
    DenseDtn p = make_problem<TypeParam>(2, 4, 6, 21, 3, variant, {.pool = pool});
    const Doubles dy = doubles(normal_values<TypeParam>(p.x.size(), 9));
    for (Isa isa : isas()) {
      Fused<TypeParam> plain(p, dy), twice(p, dy);
      plain.run(isa);
      twice.run(isa);
      const std::vector<TypeParam> residual = normal_values<TypeParam>(p.x.size(), 10);
      twice.dx = residual;
      twice.backward.dx_add = twice.dx.data();  // in place
      run_on(isa, twice.backward);
      for (std::size_t i = 0; i < plain.dx.size(); ++i) {
        const double sum = as_double(plain.dx[i]) + as_double(residual[i]);
        EXPECT_NEAR(as_double(twice.dx[i]), sum,
                    4 * epsilon_of<TypeParam>() * (1 + std::fabs(sum)));
      }
      auto doubled = [](const std::vector<A>& once, const std::vector<A>& two) {
        for (std::size_t i = 0; i < once.size(); ++i) {
          EXPECT_NEAR(two[i], 2 * once[i], 16 * epsilon_of<A>() * (1 + std::fabs(once[i])));
        }
      };
      doubled(plain.dweight, twice.dweight);
      doubled(plain.dbias, twice.dbias);
      doubled(plain.dlambda_mean, twice.dlambda_mean);
      doubled(plain.dlambda_var, twice.dlambda_var);
      doubled(plain.dpos_weight, twice.dpos_weight);
    }
  }
}

TYPED_TEST(DtnNorm, AnyGradientIsOptional) {
  for (int pool : {1, 2}) {
    DenseDtn p = make_problem<TypeParam>(2, 4, 6, 21, 3, DtnVariant::kPaper, {.pool = pool});
    const Doubles dy = doubles(normal_values<TypeParam>(p.x.size(), 9));
    for (Isa isa : isas()) {
      Fused<TypeParam> all(p, dy);
      all.run(isa);
      Fused<TypeParam> only_x(p, dy), no_x(p, dy);
      DtnNormBackward& b = only_x.backward;
      b.dweight = b.dbias = b.dlambda_mean = b.dlambda_var = b.dpos_weight = nullptr;
      no_x.backward.dx = nullptr;
      only_x.run(isa);
      no_x.run(isa);
      EXPECT_TRUE(same_bits(only_x.dx, all.dx));
      EXPECT_TRUE(same_bits(no_x.dpos_weight, all.dpos_weight));
      EXPECT_TRUE(same_bits(no_x.dweight, all.dweight));
      EXPECT_EQ(largest(doubles(only_x.dpos_weight)) + largest(doubles(no_x.dx)), 0);
    }
  }
}

TEST(DtnNormErrors, RejectsIntegers) {
  DenseDtn p = make_problem<float>(1, 2, 2, 4, 2);
  Fused<float> fused(p, p.x);
  fused.forward.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), fused.forward), Error);
}

// P is computed outside of computing threads, whose mode would flush denormal weights to 0.
template <class A>
void expect_no_denormal_weight(std::int64_t n, A square_weight, A offset_weight) {
  std::vector<A> apply(static_cast<std::size_t>(n * n)), transposed(apply), row(apply);
  std::vector<DTN_ISA::Span> spans(static_cast<std::size_t>(3 * n));
  std::int64_t block = 0;
  DTN_ISA::build_positions<A>(n, square_weight, offset_weight, A(1),
                              {apply.data(), transposed.data(), nullptr, nullptr, row.data(),
                               spans.data(), spans.data() + n, spans.data() + 2 * n, &block});
  std::int64_t zeros = 0, tiny = 0;
  long double total = 0;
  for (A p : apply) {
    EXPECT_TRUE(p == 0 || std::isnormal(p)) << p;
    zeros += p == 0;
    tiny += p > 0 && p < std::pow(std::numeric_limits<A>::min(), 0.9);
    total += p;
  }
  EXPECT_GT(zeros, 0);
  EXPECT_GT(tiny, 0);
  EXPECT_NEAR(static_cast<double>(total / static_cast<long double>(n)), 1,
              epsilon_of<A>() * std::sqrt(static_cast<double>(n)));
}

TEST(DtnNormPositions, NoWeightIsDenormal) {
  expect_no_denormal_weight<float>(kWholeAxis, -0.5f, 0.3f);
  expect_no_denormal_weight<float>(kWholeAxis, 0, -6.0f);
  expect_no_denormal_weight<double>(197, -0.05, 0.3);
  expect_no_denormal_weight<double>(197, 0, -3.7);
}

}  // namespace
}  // namespace dtn::test
