#include "kernels/dtn/dtn_dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dtn/core/check.h"
#include "kernels/dtn/dtn_dense_positions.h"
#include "unit/kernels/dtn_problem.h"

DTN_RUN_ON_EACH_ISA(DtnDenseForward)
DTN_RUN_ON_EACH_ISA(DtnDenseBackward)
DTN_RUN_ON_EACH_ISA(DtnDensePositions)
DTN_RUN_ON_EACH_ISA(DtnDensePositionsBackward)
DTN_RUN_ON_EACH_ISA(DtnNormForward)
DTN_RUN_ON_EACH_ISA(DtnNormBackward)

namespace dtn::test {
namespace {

// Properties of a problem besides its shape.
struct Content {
  DtnPositionKind kind = DtnPositionKind::kTable;
  int pool = 1, band = 5;
  DtnVariant variant = DtnVariant::kPaper;
  double mean = 0;
  bool zero_weight = false, constant_rows = false;
};

template <class T>
DenseDtn make_problem(int batch, int grid_h, int grid_w, int channels, int heads,
                      const Content& content = {}) {
  using A = AccumulatorOf<T>;
  DenseDtn p = make_content<T>(batch, grid_h, grid_w, channels, heads, content.variant,
                               content.pool, content.mean);
  switch (content.kind) {
    case DtnPositionKind::kRelative: p.pos_weight = normal_doubles<A>(3 * heads, 4, 0, 0.3); break;
    case DtnPositionKind::kTable:
      p.position_table = normal_doubles<A>(std::int64_t{heads} * p.cells() * p.cells(), 4);
      break;
    case DtnPositionKind::kBanded: p.band = content.band;
  }
  if (content.zero_weight) std::fill(p.weight.begin(), p.weight.end(), 0.0);
  if (content.constant_rows) make_rows_constant(p);
  return p;
}

// Runs the kernels on a problem and keeps all outputs. Activations start at element 1 of their
// memory, so that nothing is aligned.
template <class T>
struct Fused {
  using A = AccumulatorOf<T>;
  DtnPositionKind kind;
  std::vector<T> x, y, dy, dx;
  std::vector<A> weight, bias, lambda_mean, lambda_var, positions;
  std::vector<A> token_mean, token_var, pivot, p, dp;
  std::vector<double> head_rstd;
  std::vector<A> dweight, dbias, dlambda_mean, dlambda_var, dpositions;
  DtnDenseForward forward{};
  DtnDenseBackward backward{};
  DtnDensePositions matrix{};
  DtnDensePositionsBackward matrix_backward{};

  Fused(const DenseDtn& d, const Doubles& cotangent)
      : kind(d.band                      ? DtnPositionKind::kBanded
             : !d.position_table.empty() ? DtnPositionKind::kTable
                                         : DtnPositionKind::kRelative),
        x(shifted(to<T>(d.x))),
        y(x.size()),
        dy(shifted(to<T>(cotangent))),
        dx(x.size()),
        weight(to<A>(d.weight)),
        bias(to<A>(d.bias)),
        lambda_mean(to<A>(d.lambda_mean)),
        lambda_var(to<A>(d.lambda_var)),
        positions(to<A>(kind == DtnPositionKind::kTable ? d.position_table : d.pos_weight)),
        token_mean(d.batch * d.tokens()),
        token_var(token_mean.size()),
        pivot(d.batch * d.channels),
        p(static_cast<std::size_t>(d.heads) * d.cells() * d.cells(), static_cast<A>(NAN)),
        dp(p.size(), static_cast<A>(NAN)),
        head_rstd(d.official ? token_mean.size() * d.heads : 0),
        dweight(d.channels),
        dbias(d.channels),
        dlambda_mean(d.heads),
        dlambda_var(d.heads),
        dpositions(positions.size()) {
    const DtnVariant variant = d.official ? DtnVariant::kOfficial : DtnVariant::kPaper;
    const DType dtype = DTypeOf<T>::value, acc = DTypeOf<A>::value;
    auto common = [&](auto& n) {
      n.dtype = dtype;
      n.batch = d.batch;
      n.grid_h = d.grid_h;
      n.grid_w = d.grid_w;
      n.channels = d.channels;
      n.heads = d.heads;
      n.eps = d.eps;
      n.variant = variant;
      n.x = x.data() + 1;
      n.weight = weight.data();
      n.lambda_mean = lambda_mean.data();
      n.lambda_var = lambda_var.data();
      n.token_mean = token_mean.data();
      n.token_var = token_var.data();
      n.pivot = pivot.data();
      n.head_rstd = d.official ? head_rstd.data() : nullptr;
    };
    common(forward.norm);
    forward.norm.bias = bias.data();
    forward.norm.y = y.data() + 1;
    common(backward.norm);
    backward.norm.dy = dy.data() + 1;
    backward.norm.dx = dx.data() + 1;
    backward.norm.dweight = dweight.data();
    backward.norm.dbias = dbias.data();
    backward.norm.dlambda_mean = dlambda_mean.data();
    backward.norm.dlambda_var = dlambda_var.data();
    forward.norm.pool = backward.norm.pool = d.pool;
    forward.positions = backward.positions = p.data();
    backward.dpositions = dp.data();
    auto of_matrix = [&](auto& m) {
      m.dtype = acc;
      m.heads = d.heads;
      m.grid_h = d.grid_h / d.pool;
      m.grid_w = d.grid_w / d.pool;
      m.kind = kind;
      m.variant = variant;
      m.weight = positions.data();
      m.p = p.data();
    };
    of_matrix(matrix);
    matrix.band = d.band;
    of_matrix(matrix_backward);
    matrix_backward.dp = dp.data();
    matrix_backward.dweight = dpositions.data();
  }
  Fused(const Fused&) = delete;  // the argument structs point into this object

  void run(Isa isa) {
    run_on(isa, matrix);
    run_on(isa, forward);
    run_on(isa, backward);
    if (kind != DtnPositionKind::kBanded) run_on(isa, matrix_backward);
  }
  DenseDtn::Gradients gradients() const {
    DenseDtn::Gradients g{unshifted(dx),         doubles(dweight),     doubles(dbias),
                          doubles(dlambda_mean), doubles(dlambda_var), {}};
    (kind == DtnPositionKind::kTable ? g.position_table : g.pos_weight) = doubles(dpositions);
    return g;
  }
  bool same(const Fused& o) const {
    return same_bits(y, o.y) && same_bits(dx, o.dx) && same_bits(dweight, o.dweight) &&
           same_bits(dbias, o.dbias) && same_bits(dlambda_mean, o.dlambda_mean) &&
           same_bits(dlambda_var, o.dlambda_var) && same_bits(dpositions, o.dpositions) &&
           same_bits(p, o.p) && same_bits(dp, o.dp);
  }

  static std::vector<T> shifted(std::vector<T> v) {
    v.insert(v.begin(), T{});
    return v;
  }
  static Doubles unshifted(const std::vector<T>& v) {
    Doubles out = doubles(v);
    out.erase(out.begin());
    return out;
  }
};

template <class T>
void check_against_oracle(const DenseDtn& p, const std::vector<Isa>& list = isas()) {
  const Doubles cotangent = cotangent_of<T>(p), y = p.forward();
  const DenseDtn::Gradients expected = p.backward(cotangent);
  for (Isa isa : list) {
    SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", shape_text(p)));
    Fused<T> fused(p, cotangent);
    fused.run(isa);
    EXPECT_LE(error(Fused<T>::unshifted(fused.y), y), stored_tolerance<T>());
    expect_near<T>(fused.gradients(), expected);
  }
}

constexpr DtnVariant kVariants[] = {DtnVariant::kPaper, DtnVariant::kOfficial};
constexpr DtnPositionKind kKinds[] = {DtnPositionKind::kRelative, DtnPositionKind::kTable,
                                      DtnPositionKind::kBanded};

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class DtnDense : public ::testing::Test {};
TYPED_TEST_SUITE(DtnDense, Types);

TYPED_TEST(DtnDense, MatchesReference) {
  struct Case {
    int batch, grid_h, grid_w, channels, heads, pool;
  };
  for (const Case& s : {Case{1, 14, 14, 96, 2, 1}, Case{2, 14, 14, 96, 2, 2},
                        Case{1, 1, 197, 50, 1, 1}, Case{5, 7, 5, 21, 3, 1}, Case{3, 6, 9, 20, 2, 3},
                        Case{2, 4, 4, 6, 2, 4}, Case{2, 1, 1, 9, 3, 1}}) {
    for (DtnVariant variant : kVariants) {
      for (DtnPositionKind kind : kKinds) {
        check_against_oracle<TypeParam>(
            make_problem<TypeParam>(s.batch, s.grid_h, s.grid_w, s.channels, s.heads,
                                    {.kind = kind, .pool = s.pool, .variant = variant}));
      }
    }
  }
}

TYPED_TEST(DtnDense, ZeroWeightAndConstantRows) {
  for (DtnVariant variant : kVariants) {
    for (int pool : {1, 2}) {
      const DenseDtn p = make_problem<TypeParam>(
          2, 6, 4, 24, 2, {.pool = pool, .variant = variant, .zero_weight = true});
      EXPECT_GT(largest(p.backward(cotangent_of<TypeParam>(p)).weight), 1);
      check_against_oracle<TypeParam>(p);
      check_against_oracle<TypeParam>(make_problem<TypeParam>(
          2, 6, 4, 24, 2, {.pool = pool, .variant = variant, .constant_rows = true}));
    }
  }
}

// The pivot preserves the variance: in float32, 1e6 - 1e6 would leave nothing of it.
TEST(DtnDenseNumerics, LargeMean) {
  for (DtnVariant variant : kVariants) {
    for (int pool : {1, 2}) {
      for (double mean : {1e3, -1e3}) {
        check_against_oracle<float>(make_problem<float>(
            2, 14, 14, 96, 2, {.pool = pool, .variant = variant, .mean = mean}));
      }
    }
  }
}

// More rows than one block of the gradient of P, and more channels per head than one product.
TEST(DtnDenseNumerics, ManyTokensAndChannels) {
  check_against_oracle<float>(make_problem<float>(2, 20, 27, 24, 1), {current_isa()});
  check_against_oracle<float>(make_problem<float>(3, 5, 5, 200, 1));
}

// Exceeds the memory budget for position matrices, so the heads are processed in waves.
TEST(DtnDenseNumerics, ProcessesHeadsInWavesBeyondMemoryBudget) {
  check_against_oracle<float>(
      make_problem<float>(1, 1, 2100, 4, 4, {.kind = DtnPositionKind::kRelative}), {current_isa()});
}

// Large scores: only differences matter, and weights far below the largest are 0.
TEST(DtnDenseNumerics, LargeScores) {
  DenseDtn p = make_problem<float>(2, 5, 6, 24, 2);
  for (std::size_t i = 0; i < p.position_table.size(); ++i) {
    p.position_table[i] = static_cast<float>(p.position_table[i] * 50 + (i / 30 % 2 ? 1e4 : -1e4));
  }
  check_against_oracle<float>(p);
}

// Weights far from the largest are 0 or normal numbers, and rows still sum to 1.
TYPED_TEST(DtnDense, NoWeightIsDenormal) {
  using A = AccumulatorOf<TypeParam>;
  // e^-x becomes denormal within this range of x.
  const double reach = std::is_same_v<A, double> ? 740 : 95;
  for (DtnPositionKind kind : {DtnPositionKind::kRelative, DtnPositionKind::kTable}) {
    DenseDtn p = make_problem<TypeParam>(1, 9, 17, 8, 2, {.kind = kind});
    for (std::size_t i = 0; i < p.pos_weight.size(); ++i) {
      p.pos_weight[i] = i % 3 == 2 ? -reach / 80 : 0.1;
    }
    for (std::size_t i = 0; i < p.position_table.size(); ++i) {
      p.position_table[i] = -reach * static_cast<double>(i * 7 % 153) / 152;
    }
    for (Isa isa : isas()) {
      Fused<TypeParam> f(p, cotangent_of<TypeParam>(p));
      run_on(isa, f.matrix);
      std::int64_t tiny = 0;
      for (std::size_t row = 0; row < f.p.size(); row += 153) {
        double total = 0;
        for (std::size_t j = 0; j < 153; ++j) {
          const A weight = f.p[row + j];
          EXPECT_TRUE(weight == 0 || std::isnormal(weight)) << weight;
          tiny += weight > 0 && weight < std::pow(std::numeric_limits<A>::min(), 0.9);
          total += static_cast<double>(weight);
        }
        EXPECT_NEAR(total, 1, epsilon_of<A>() * std::sqrt(153.0));
      }
      EXPECT_GT(tiny, 0);
    }
  }
}

// The full matrix of relative positions gives the same results as the two small matrices.
TYPED_TEST(DtnDense, RelativePositionsMatchSeparableKernel) {
  using A = AccumulatorOf<TypeParam>;
  for (DtnVariant variant : kVariants) {
    const DenseDtn p = make_problem<TypeParam>(
        3, 7, 6, 24, 2, {.kind = DtnPositionKind::kRelative, .variant = variant});
    const Doubles dy = cotangent_of<TypeParam>(p);
    for (Isa isa : isas()) {
      Fused<TypeParam> dense(p, dy), separable(p, dy);
      dense.run(isa);
      DtnNormForward forward = separable.forward.norm;
      DtnNormBackward backward = separable.backward.norm;
      forward.pos_weight = backward.pos_weight = separable.positions.data();
      backward.dpos_weight = separable.dpositions.data();
      run_on(isa, forward);
      run_on(isa, backward);
      EXPECT_TRUE(same_bits(dense.token_mean, separable.token_mean));
      EXPECT_TRUE(same_bits(dense.pivot, separable.pivot));
      const double stored = 2 * stored_tolerance<TypeParam>();
      EXPECT_LE(error(doubles(dense.y), doubles(separable.y)), stored);
      EXPECT_LE(error(doubles(dense.dx), doubles(separable.dx)), stored);
      EXPECT_LE(error(doubles(dense.dpositions), doubles(separable.dpositions)),
                2 * tolerance<A>());
    }
  }
}

TYPED_TEST(DtnDense, SameBitsForAnyNumberOfThreads) {
  for (int batch : {1, 2, 5, 16}) {
    for (int pool : {1, 2}) {
      for (DtnPositionKind kind : {DtnPositionKind::kRelative, DtnPositionKind::kTable}) {
        const DenseDtn p =
            make_problem<TypeParam>(batch, 6, 10, 60, 3, {.kind = kind, .pool = pool});
        const Doubles dy = cotangent_of<TypeParam>(p);
        for (Isa isa : isas()) {
          Threads serial(1);
          Fused<TypeParam> reference(p, dy);
          reference.run(isa);
          for (int threads : kThreadCounts) {
            Threads parallel(threads);
            Fused<TypeParam> other(p, dy);
            other.run(isa);
            EXPECT_TRUE(other.same(reference)) << threads << " threads, " << name_of(isa);
          }
        }
      }
    }
  }
}

// --- contract --------------------------------------------------------------------------------

TYPED_TEST(DtnDense, AccumulatesParameterGradientsAndAddsResidualGradient) {
  using A = AccumulatorOf<TypeParam>;
  for (DtnVariant variant : kVariants) {
    for (int pool : {1, 2}) {
      const DenseDtn p =
          make_problem<TypeParam>(2, 4, 6, 20, 2, {.pool = pool, .variant = variant});
      const Doubles dy = cotangent_of<TypeParam>(p);
      DenseDtn::Gradients want = p.backward(dy);
      auto add = normal_values<TypeParam>(static_cast<std::int64_t>(p.x.size()) + 1, 10);
      for (std::size_t i = 0; i < want.x.size(); ++i) want.x[i] += as_double(add[i + 1]);
      for (bool in_place : {false, true}) {
        Fused<TypeParam> f(p, dy);
        if (in_place) f.dx = add;
        f.backward.norm.dx_add = in_place ? f.dx.data() + 1 : add.data() + 1;
        for (std::vector<A>* v :
             {&f.dweight, &f.dbias, &f.dlambda_mean, &f.dlambda_var, &f.dpositions}) {
          std::fill(v->begin(), v->end(), A(3));
        }
        f.run(current_isa());
        DenseDtn::Gradients got = f.gradients();
        EXPECT_LE(error(got.x, want.x), stored_tolerance<TypeParam>());
        for (const NamedGradient& g : kGradients) {
          if (g.member == kGradients[0].member) continue;
          Doubles sum = want.*g.member;
          for (double& v : sum) v += 3;
          EXPECT_LE(error(got.*g.member, sum), 2 * tolerance<TypeParam>()) << g.name;
        }
      }
    }
  }
}

TYPED_TEST(DtnDense, AnyGradientIsOptional) {
  for (DtnVariant variant : kVariants) {
    const DenseDtn p = make_problem<TypeParam>(2, 4, 6, 20, 2, {.pool = 2, .variant = variant});
    const Doubles dy = cotangent_of<TypeParam>(p);
    Fused<TypeParam> all(p, dy);
    all.run(current_isa());
    for (int alone = 0; alone < 6; ++alone) {
      Fused<TypeParam> f(p, dy);
      DtnNormBackward& n = f.backward.norm;
      void** members[] = {&n.dx,           &n.dweight,     &n.dbias,
                          &n.dlambda_mean, &n.dlambda_var, &f.backward.dpositions};
      for (int k = 0; k < 6; ++k) {
        if (k != alone) *members[k] = nullptr;
      }
      run_on(current_isa(), f.matrix);
      run_on(current_isa(), f.forward);
      run_on(current_isa(), f.backward);
      EXPECT_EQ(same_bits(f.dx, all.dx), alone == 0);
      EXPECT_EQ(same_bits(f.dweight, all.dweight), alone == 1);
      EXPECT_EQ(same_bits(f.dbias, all.dbias), alone == 2);
      EXPECT_EQ(same_bits(f.dlambda_mean, all.dlambda_mean), alone == 3);
      EXPECT_EQ(same_bits(f.dlambda_var, all.dlambda_var), alone == 4);
      EXPECT_EQ(same_bits(f.dp, all.dp), alone == 5);
    }
  }
}

TEST(DtnDenseContract, EmptyBatchHasZeroGradient) {
  DenseDtn p = make_problem<float>(1, 2, 3, 8, 2);
  Fused<float> f(p, cotangent_of<float>(p));
  run_on(current_isa(), f.matrix);
  f.forward.norm.batch = f.backward.norm.batch = 0;
  run_on(current_isa(), f.forward);
  run_on(current_isa(), f.backward);
  EXPECT_EQ(largest(doubles(f.dp)), 0);
  EXPECT_EQ(largest(doubles(f.dweight)), 0);
}

// A NaN stays in its image and reaches every token of its channel.
TEST(DtnDenseContract, NanPropagates) {
  DenseDtn p = make_problem<float>(2, 4, 4, 8, 2, {.pool = 2});
  Fused<float> f(p, cotangent_of<float>(p));
  f.x[1 + p.at(1, 5, 3)] = NAN;
  f.run(current_isa());
  for (int t = 0; t < 16; ++t) {
    EXPECT_TRUE(std::isnan(f.y[1 + p.at(1, t, 3)]));
    EXPECT_EQ(std::isnan(f.y[1 + p.at(1, t, 2)]), t == 5) << t;
    EXPECT_FALSE(std::isnan(f.y[1 + p.at(0, t, 3)]));
  }
}

TEST(DtnDenseContract, PositionsHaveAccumulatorType) {
  DenseDtn p = make_problem<bfloat16>(1, 2, 3, 8, 2);
  Fused<bfloat16> f(p, cotangent_of<bfloat16>(p));
  f.matrix.dtype = f.matrix_backward.dtype = DType::kBFloat16;
  EXPECT_THROW(run_on(current_isa(), f.matrix), Error);
  EXPECT_THROW(run_on(current_isa(), f.matrix_backward), Error);
}

}  // namespace
}  // namespace dtn::test
