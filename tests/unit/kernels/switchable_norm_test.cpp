#include <gtest/gtest.h>

#include <limits>

#include "dtn/core/check.h"
#include "unit/kernels/switchable_norm_problem.h"

namespace dtn::test {
namespace {

template <class T>
void check(SwitchableProblem<T>& p, Isa isa, double factor = 1) {
  SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", p.n.batch, " x ", p.n.tokens,
                   " x ", p.n.channels, p.training() ? " training" : " evaluation"));
  using A = AccumulatorOf<T>;
  const SwitchableExpected e = reference(p);
  const double exact = factor * tolerance<A>(p.n), stored = factor * stored_tolerance<T>(p.n);
  const std::vector<A> next_mean = p.next_mean, next_var = p.next_var;
  p.run(isa);
  EXPECT_LE(error(doubles(p.y), e.y), stored);
  EXPECT_LE(error(doubles(p.dx), e.dx), stored);
  EXPECT_LE(error(doubles(p.dweight), e.dweight), exact);
  EXPECT_LE(error(doubles(p.dbias), e.dbias), exact);
  // These gradients are differences of inner products whose terms are as large as those of dweight.
  const double floor = largest(e.dweight);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(p.dmean_weight[k], e.dmean_weight[k],
                exact * std::max(floor, largest(e.dmean_weight)));
    EXPECT_NEAR(p.dvar_weight[k], e.dvar_weight[k],
                exact * std::max(floor, largest(e.dvar_weight)));
  }
  if (p.training()) {
    EXPECT_LE(error(doubles(p.next_mean), e.next_mean), exact);
    EXPECT_LE(error(doubles(p.next_var), e.next_var), exact);
  } else {
    EXPECT_TRUE(same_bits(p.next_mean, next_mean) && same_bits(p.next_var, next_var));
  }
}

constexpr Mode kModes[] = {Mode::kTraining, Mode::kEvaluation};

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class SwitchableNorm : public ::testing::Test {};
TYPED_TEST_SUITE(SwitchableNorm, Types);

TYPED_TEST(SwitchableNorm, MatchesFormulas) {
  // Full and partial vectors, row groups and pieces; more images than pieces; a single token.
  const Sizes sizes[] = {{2, 196, 48}, {1, 197, 67}, {3, 35, 100},
                         {70, 2, 5},   {5, 1, 16},   {1, 1, 24}};
  for (Isa isa : isas()) {
    for (const Sizes& n : sizes) {
      for (Mode mode : kModes) {
        SwitchableProblem<TypeParam> p(n, mode);
        check(p, isa);
      }
    }
  }
}

TYPED_TEST(SwitchableNorm, ZeroWeightAndConstantRows) {
  for (Isa isa : isas()) {
    for (Mode mode : kModes) {
      SwitchableProblem<TypeParam> zero({3, 19, 50}, mode);
      std::fill(zero.weight.begin(), zero.weight.end(), 0);
      check(zero, isa);
      EXPECT_GT(largest(doubles(zero.dweight)), 1);
      // One image, and some tokens of another image, are constant.
      SwitchableProblem<TypeParam> constant({3, 19, 50}, mode);
      std::fill_n(constant.x.begin(), 25 * 50, static_cast<TypeParam>(3.0f));
      check(constant, isa);
    }
  }
}

// --- samples of different lengths ----------------------------------------------------------------

TYPED_TEST(SwitchableNorm, IgnoresPadding) {
  const auto nan = static_cast<TypeParam>(std::numeric_limits<float>::quiet_NaN());
  // Shorter than a piece; one token; full and partial groups of rows; many samples.
  const std::pair<Sizes, std::vector<std::int64_t>> cases[] = {
      {{3, 120, 48}, {97, 1, 35}}, {{2, 20, 67}, {20, 7}}, {{5, 9, 16}, {1, 1, 1, 1, 1}}};
  for (Isa isa : isas()) {
    for (const auto& [n, lengths] : cases) {
      for (Mode mode : kModes) {
        SwitchableProblem<TypeParam> p(n, mode);
        p.pad(lengths, nan);
        check(p, isa);
      }
    }
  }
}

TYPED_TEST(SwitchableNorm, ExtraPaddingKeepsBitsForAnyNumberOfThreads) {
  const auto nan = static_cast<TypeParam>(std::numeric_limits<float>::quiet_NaN());
  constexpr std::int64_t kFew = 97, kMany = 1000, kChannels = 50;
  const std::vector<std::int64_t> lengths = {97, 1, 35};
  const auto put = [&](const std::vector<TypeParam>& from, std::vector<TypeParam>& to) {
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const auto first = static_cast<std::ptrdiff_t>(b) * kFew * kChannels;
      std::copy_n(from.begin() + first, lengths[b] * kChannels,
                  to.begin() + static_cast<std::ptrdiff_t>(b) * kMany * kChannels);
    }
  };
  for (Isa isa : isas()) {
    SwitchableProblem<TypeParam> few({3, kFew, kChannels}, Mode::kTraining);
    few.pad(lengths, static_cast<TypeParam>(0.0f));
    {
      Threads serial(1);
      few.run(isa);
    }
    for (int threads : kThreadCounts) {
      Threads parallel(threads);
      SwitchableProblem<TypeParam> many({3, kMany, kChannels}, Mode::kTraining);
      put(few.x, many.x), put(few.dy, many.dy), put(few.add, many.add);
      many.pad(lengths, nan);
      many.run(isa);
      std::vector<TypeParam> y(many.y), dx(many.dx);
      put(few.y, y), put(few.dx, dx);
      EXPECT_TRUE(same_bits(many.y, y) && same_bits(many.dx, dx)) << threads;
      EXPECT_TRUE(same_bits(many.batch_mean, few.batch_mean));
      EXPECT_TRUE(same_bits(many.next_var, few.next_var));
      EXPECT_TRUE(same_bits(many.dweight, few.dweight));
      EXPECT_TRUE(same_bits(many.dbias, few.dbias));
      EXPECT_TRUE(same_bits(many.dmean_weight, few.dmean_weight));
      EXPECT_TRUE(same_bits(many.dvar_weight, few.dvar_weight));
    }
  }
}

// The variances are zero, so eps determines the division.
TYPED_TEST(SwitchableNorm, ConstantInput) {
  for (Isa isa : isas()) {
    SwitchableProblem<TypeParam> p({2, 19, 50}, Mode::kTraining);
    std::fill(p.x.begin(), p.x.end(), static_cast<TypeParam>(3.0f));
    p.run(isa);
    EXPECT_LE(error(doubles(p.y), reference(p).y), stored_tolerance<TypeParam>(p.n));
    EXPECT_EQ(largest(doubles(p.batch_var)), 0);
    EXPECT_EQ(largest(doubles(p.dweight)), 0);
    EXPECT_TRUE(std::isfinite(largest(doubles(p.dx))));
  }
}

TEST(SwitchableNormNumerics, LargeMean) {
  for (Isa isa : isas()) {
    for (Mode mode : kModes) {
      for (double mean : {1e3, -1e3}) {
        SwitchableProblem<float> p({3, 49, 100}, mode, mean);
        check(p, isa);
      }
    }
  }
}

// Channels with very different means, each normalized separately.
TEST(SwitchableNormNumerics, LargeChannelMeans) {
  for (Isa isa : isas()) {
    for (int kind : {0, 2}) {
      SwitchableProblem<float> p({3, 49, 100}, Mode::kTraining);
      for (std::size_t i = 0; i < p.x.size(); ++i) {
        const auto c = static_cast<float>(i % 100);
        p.x[i] = p.x[i] + (c - 50) * 20;
      }
      p.mean_weight = p.var_weight = {0, 0, 0};
      p.mean_weight[kind] = p.var_weight[kind] = 1000;
      check(p, isa);
    }
  }
}

TYPED_TEST(SwitchableNorm, SameBitsForAnyNumberOfThreads) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {Sizes{4, 197, 70}, Sizes{1, 300, 130}}) {
      Threads serial(1);
      SwitchableProblem<TypeParam> one(n, Mode::kTraining);
      one.run(isa);
      for (int threads : kThreadCounts) {
        Threads parallel(threads);
        SwitchableProblem<TypeParam> many(n, Mode::kTraining);
        many.run(isa);
        EXPECT_TRUE(same_bits(many.y, one.y) && same_bits(many.dx, one.dx) &&
                    same_bits(many.dweight, one.dweight) && same_bits(many.dbias, one.dbias) &&
                    same_bits(many.dmean_weight, one.dmean_weight) &&
                    same_bits(many.dvar_weight, one.dvar_weight) &&
                    same_bits(many.next_var, one.next_var))
            << name_of(isa) << ", " << threads << " threads";
      }
    }
  }
}

TYPED_TEST(SwitchableNorm, AccumulatesAndRunsInPlace) {
  using A = AccumulatorOf<TypeParam>;
  for (Isa isa : isas()) {
    SwitchableProblem<TypeParam> plain({2, 21, 37}, Mode::kTraining), other = plain;
    plain.run(isa);
    other.run(isa);
    SwitchableNormBackward args = other.backward();
    args.dx = other.add.data();
    run_on(isa, args);
    EXPECT_TRUE(same_bits(other.add, plain.dx));

    args.dx = plain.dx.data();
    args.dx_add = nullptr;
    run_on(isa, args);
    args.dx = other.dy.data();
    run_on(isa, args);
    EXPECT_TRUE(same_bits(other.dy, plain.dx));
    EXPECT_FALSE(same_bits(other.add, plain.dx));

    // Kernels add to parameter gradients, and skip null ones.
    SwitchableNormBackwardSums sums = plain.sums();
    run_on(isa, sums);
    for (std::size_t c = 0; c < 37; ++c) {
      EXPECT_NEAR(plain.dweight[c], 2 * other.dweight[c], 64 * epsilon_of<A>());
      EXPECT_NEAR(plain.dbias[c], 2 * other.dbias[c], 64 * epsilon_of<A>());
    }
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(plain.dmean_weight[k], 2 * other.dmean_weight[k]);
      EXPECT_EQ(plain.dvar_weight[k], 2 * other.dvar_weight[k]);
    }
    sums.dweight = sums.dbias = sums.dmean_weight = sums.dvar_weight = nullptr;
    const std::vector<A> before = plain.dweight;
    std::fill(plain.batch_dvar.begin(), plain.batch_dvar.end(), 0);
    run_on(isa, sums);
    EXPECT_TRUE(same_bits(plain.dweight, before));
    EXPECT_TRUE(same_bits(plain.batch_dvar, other.batch_dvar));
  }
}

// Two ranks with half of the batch each, combined between the steps as the contract requires, give
// the results of one rank with the whole batch.
TEST(SwitchableNormRanks, CombineBetweenSteps) {
  SwitchableProblem<double> whole({6, 11, 20}, Mode::kTraining);
  const Isa isa = current_isa();
  whole.run(isa);
  std::vector<SwitchableProblem<double>> ranks(
      2, SwitchableProblem<double>({3, 11, 20}, Mode::kTraining));
  const std::size_t half = whole.x.size() / 2;
  for (std::size_t k = 0; k < 2; ++k) {
    SwitchableProblem<double>& p = ranks[k];
    auto cut = [&](const Doubles& from, Doubles& to) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(k * half), half, to.begin());
    };
    cut(whole.x, p.x), cut(whole.dy, p.dy), cut(whole.add, p.add);
    run_on(isa, SwitchableNormStatistics{p.terms()});
  }
  for (std::size_t c = 0; c < 20; ++c) {
    double mean = 0, var = 0;
    for (SwitchableProblem<double>& p : ranks) mean += p.batch_mean[c] / 2;
    for (SwitchableProblem<double>& p : ranks)
      var += (p.batch_var[c] + std::pow(p.batch_mean[c] - mean, 2)) / 2;
    for (SwitchableProblem<double>& p : ranks) p.batch_mean[c] = mean, p.batch_var[c] = var;
  }
  for (SwitchableProblem<double>& p : ranks) {
    run_on(isa, p.forward());
    run_on(isa, p.sums());
  }
  for (Doubles SwitchableProblem<double>::*sum :
       {&SwitchableProblem<double>::batch_dmean, &SwitchableProblem<double>::batch_dvar}) {
    for (std::size_t c = 0; c < 20; ++c) {
      (ranks[0].*sum)[c] = (ranks[1].*sum)[c] = (ranks[0].*sum)[c] + (ranks[1].*sum)[c];
    }
  }
  Doubles y, dx;
  for (SwitchableProblem<double>& p : ranks) {
    SwitchableNormBackward args = p.backward();
    args.positions *= 2;
    run_on(isa, args);
    y.insert(y.end(), p.y.begin(), p.y.end());
    dx.insert(dx.end(), p.dx.begin(), p.dx.end());
    EXPECT_LE(error(p.next_mean, whole.next_mean), 1e-14);
    EXPECT_LE(error(p.next_var, whole.next_var), 1e-14);
  }
  EXPECT_LE(error(y, whole.y), 1e-13);
  EXPECT_LE(error(dx, whole.dx), 1e-13);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(ranks[0].dmean_weight[k] + ranks[1].dmean_weight[k], whole.dmean_weight[k], 1e-11);
    EXPECT_NEAR(ranks[0].dvar_weight[k] + ranks[1].dvar_weight[k], whole.dvar_weight[k], 1e-11);
  }
}

// In evaluation images do not influence each other.
TEST(SwitchableNormNumerics, NaNStaysInItsImage) {
  for (Isa isa : isas()) {
    SwitchableProblem<float> p({3, 9, 21}, Mode::kEvaluation);
    p.x[9 * 21 + 4 * 21 + 7] = NAN;
    p.run(isa);
    for (std::size_t i = 0; i < p.y.size(); ++i) {
      const std::size_t image = i / (9 * 21), token = i / 21 % 9, channel = i % 21;
      EXPECT_EQ(std::isnan(p.y[i]), image == 1 && (token == 4 || channel == 7)) << i;
      EXPECT_EQ(std::isnan(p.dx[i]), image == 1) << i;
    }
  }
}

TEST(SwitchableNormErrors, AcceptsEmptyInputAndRejectsIntegers) {
  SwitchableProblem<float> empty({0, 4, 4}, Mode::kTraining);
  empty.run(current_isa());
  SwitchableProblem<float> p({2, 4, 4}, Mode::kTraining);
  SwitchableNormForward args = p.forward();
  args.terms.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), args), Error);
}

}  // namespace
}  // namespace dtn::test
