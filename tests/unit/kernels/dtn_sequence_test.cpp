#include "kernels/dtn_sequence/dtn_sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dtn/core/check.h"
#include "unit/kernels/dtn_sequence_problem.h"

namespace dtn::test {
namespace {

using Gradients = DenseDtn::Gradients;

constexpr DtnVariant kVariants[] = {DtnVariant::kPaper, DtnVariant::kOfficial};
constexpr double kSquareWeights[] = {-2, -1, -0.25, -0.02, -1e-4, 0, 0.02};

// Column k of the position weights [H, 3].
Doubles column(const Doubles& weights, int k) {
  Doubles out;
  for (std::size_t i = static_cast<std::size_t>(k); i < weights.size(); i += 3) {
    out.push_back(weights[i]);
  }
  return out;
}

// nothing: the smallest scale for errors in the gradients of a_d; its square root for a_x.
// Gradients of samples may cancel in the sum, so the scale is the largest gradient of any sample.
template <class T>
void check_against_oracle(const SequenceProblem& p, const std::vector<Isa>& list = isas(),
                          double nothing = 0.1) {
  const Doubles dy = cotangent_of<T>(p.all), y = p.forward();
  Doubles of_samples;
  const Gradients expected = p.backward(dy, &of_samples);
  for (Isa isa : list) {
    SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", sequence_text(p)));
    FusedSequence<T> fused(p, dy);
    fused.run(isa);
    EXPECT_LE(error(doubles(fused.y), y), stored_tolerance<T>());
    Gradients got = fused.gradients();
    // The columns are compared separately: their magnitudes differ by the width of windows.
    for (int k : {0, 2}) {
      const double least =
          std::max(k == 0 ? std::sqrt(nothing) : nothing, largest(column(of_samples, k)));
      EXPECT_LE(error(column(got.pos_weight, k), column(expected.pos_weight, k), least),
                tolerance<T>())
          << "dpos_weight, column " << k;
    }
    EXPECT_EQ(largest(column(got.pos_weight, 1)), 0);  // no effect on a line
    got.pos_weight = expected.pos_weight;
    expect_near<T>(got, expected);
  }
}

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class DtnSequence : public ::testing::Test {};
TYPED_TEST_SUITE(DtnSequence, Types);

TYPED_TEST(DtnSequence, MatchesDenseReference) {
  for (double a_d : kSquareWeights) {
    for (DtnVariant variant : kVariants) {
      for (double delta : {0.3, -2.5, 40.0, -240.0}) {
        // Far beyond the end, one key has almost all of the weight, so positions have almost no
        // gradient. The oracle multiplies its own rounding by squares of 200.
        const double nothing = delta < -200 ? 1e-3 * 200 * 200 : 0.1;
        check_against_oracle<TypeParam>(
            make_sequence<TypeParam>({197, 1, 64, 150}, 200, 21, 3, a_d, delta, variant), isas(),
            nothing);
      }
    }
  }
}

// Lengths with all kinds of ends: one token, less than a tile, tiles with and without a remainder.
TYPED_TEST(DtnSequence, AnyLength) {
  Lengths lengths;
  for (std::int64_t n : {1, 2, 3, 7, 13, 31, 63, 64, 65, 66, 127, 128, 129, 131}) {
    lengths.push_back(n);
  }
  for (double a_d : {-1.0, -0.02, 0.02}) {
    for (DtnVariant variant : kVariants) {
      check_against_oracle<TypeParam>(
          make_sequence<TypeParam>(lengths, 131, 10, 2, a_d, 1.2, variant), {current_isa()});
    }
  }
}

// 2001 tokens; windows within a part of the tokens, and windows that exceed it.
TEST(DtnSequenceNumerics, LongSequences) {
  for (double a_d : kSquareWeights) {
    for (double delta : {0.6, 40.0, -2041.0}) {
      // With a_d > 0 all rows but a few in the middle see one end only.
      const double nothing = delta < -2000 || a_d > 0 ? 1e-3 * 2000 * 2000 : 0.1;
      check_against_oracle<float>(
          make_sequence<float>({2001, 1300}, 2001, 6, 2, a_d, delta, DtnVariant::kPaper),
          {current_isa()}, nothing);
    }
    check_against_oracle<double>(
        make_sequence<double>({2001}, 2001, 4, 1, a_d, 0.6, DtnVariant::kOfficial), {current_isa()},
        a_d > 0 ? 1e-3 * 2000 * 2000 : 0.1);
  }
}

// All channel vectors, and the number of heads of real models.
TEST(DtnSequenceNumerics, ManyChannels) {
  SequenceProblem p = make_sequence<float>({300, 211}, 300, 192, 8, -1, 0, DtnVariant::kPaper);
  for (int h = 0; h < 8; ++h) p.all.pos_weight[3 * h] = 2 * h - 7.0f;  // local_1d
  check_against_oracle<float>(p);
}

TEST(DtnSequenceNumerics, LargeMean) {
  for (DtnVariant variant : kVariants) {
    for (double a_d : {-1.0, 0.0, 0.02}) {
      SequenceProblem p = make_sequence<float>({196, 80}, 196, 64, 2, a_d, 0.4, variant);
      for (double& x : p.all.x) x = static_cast<float>(x + 1e3);
      check_against_oracle<float>(p, {current_isa()});
    }
  }
}

// --- pads ------------------------------------------------------------------------------------

TYPED_TEST(DtnSequence, PaddingIsZeroAndHasNoEffect) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DtnVariant variant : kVariants) {
    const SequenceProblem p = padded_problem<TypeParam>(140, variant);
    const Doubles dy = cotangent_of<TypeParam>(p.all);
    for (Isa isa : isas()) {
      FusedSequence<TypeParam> zeros(p, dy, 0), nans(p, dy), infinities(p, dy, -inf);
      for (FusedSequence<TypeParam>* run : {&zeros, &nans, &infinities}) {
        // The residual gradient, added in place, has the same value at the pads.
        run->dx = run->dy;
        run->backward.norm.dx_add = run->dx.data();
        run->run(isa);
        for (int b = 0; b < p.all.batch; ++b) {
          const std::int64_t size = std::int64_t{p.tokens()} * p.all.channels;
          for (std::int64_t i = p.lengths[static_cast<std::size_t>(b)] * p.all.channels; i < size;
               ++i) {
            ASSERT_EQ(as_double(run->y[static_cast<std::size_t>(b * size + i)]), 0);
            ASSERT_EQ(as_double(run->dx[static_cast<std::size_t>(b * size + i)]), 0);
          }
        }
        EXPECT_TRUE(same_bits(run->y, zeros.y));
        EXPECT_TRUE(same_bits(run->dx, zeros.dx));
        EXPECT_TRUE(run->same_parameters(zeros));
        EXPECT_TRUE(std::isfinite(largest(doubles(run->dx))));
      }
    }
  }
}

TYPED_TEST(DtnSequence, ExtraPaddingKeepsBits) {
  for (DtnVariant variant : kVariants) {
    const SequenceProblem few = padded_problem<TypeParam>(133, variant);
    SequenceProblem many = padded_problem<TypeParam>(1000, variant);
    const Doubles dy = cotangent_of<TypeParam>(few.all);
    Doubles padded_dy(many.all.x.size());
    for (int b = 0; b < few.all.batch; ++b) {
      many.put(few.valid(few.all.x, b), b, many.all.x);
      many.put(few.valid(dy, b), b, padded_dy);
    }
    for (Isa isa : isas()) {
      FusedSequence<TypeParam> a(few, dy), z(many, padded_dy);
      a.run(isa);
      z.run(isa);
      for (int b = 0; b < few.all.batch; ++b) {
        EXPECT_TRUE(same_bits(a.valid(a.y, b), z.valid(z.y, b))) << b;
        EXPECT_TRUE(same_bits(a.valid(a.dx, b), z.valid(z.dx, b))) << b;
      }
      EXPECT_TRUE(a.same_parameters(z));
    }
  }
}

TYPED_TEST(DtnSequence, SampleAloneMatchesSampleInBatch) {
  const SequenceProblem p = padded_problem<TypeParam>(140, DtnVariant::kPaper);
  const Doubles dy = cotangent_of<TypeParam>(p.all);
  FusedSequence<TypeParam> batch(p, dy);
  batch.run(current_isa());
  for (int b = 0; b < p.all.batch; ++b) {
    SequenceProblem one{p.sample(b), {p.lengths[static_cast<std::size_t>(b)]}};
    FusedSequence<TypeParam> alone(one, p.valid(dy, b));
    alone.forward.lengths = alone.backward.lengths = nullptr;  // all tokens are valid
    alone.run(current_isa());
    EXPECT_TRUE(same_bits(alone.y, batch.valid(batch.y, b)));
    EXPECT_TRUE(same_bits(alone.dx, batch.valid(batch.dx, b)));
  }
}

TYPED_TEST(DtnSequence, SamplesWithoutTokensContributeNothing) {
  SequenceProblem p = padded_problem<TypeParam>(140, DtnVariant::kPaper);
  const Doubles dy = cotangent_of<TypeParam>(p.all);
  p.lengths = {0, 0, 133, 0};
  FusedSequence<TypeParam> some(p, dy);
  some.run(current_isa());
  SequenceProblem one{p.sample(2), {133}};
  FusedSequence<TypeParam> alone(one, p.valid(dy, 2));
  alone.run(current_isa());
  EXPECT_TRUE(some.same_parameters(alone));
  EXPECT_TRUE(std::isfinite(largest(doubles(some.dx))));
}

// --- contract --------------------------------------------------------------------------------

TYPED_TEST(DtnSequence, SameBitsForAnyNumberOfThreads) {
  for (int batch : {1, 2, 4}) {
    for (DtnVariant variant : kVariants) {
      SequenceProblem p = padded_problem<TypeParam>(140, variant);
      p.all.batch = batch;
      p.lengths.resize(static_cast<std::size_t>(batch));
      p.all.x.resize(static_cast<std::size_t>(batch) * p.tokens() * p.all.channels);
      const Doubles dy = cotangent_of<TypeParam>(p.all);
      for (Isa isa : isas()) {
        Threads serial(1);
        FusedSequence<TypeParam> reference(p, dy);
        reference.run(isa);
        for (int threads : kThreadCounts) {
          Threads parallel(threads);
          FusedSequence<TypeParam> fused(p, dy);
          fused.run(isa);
          EXPECT_TRUE(same_bits(fused.y, reference.y) && same_bits(fused.dx, reference.dx) &&
                      fused.same_parameters(reference))
              << name_of(isa) << " B " << batch << ", " << threads;
        }
      }
    }
  }
}

TYPED_TEST(DtnSequence, AccumulatesParameterGradientsAndAddsResidualGradient) {
  using A = AccumulatorOf<TypeParam>;
  for (DtnVariant variant : kVariants) {
    const SequenceProblem p = padded_problem<TypeParam>(140, variant);
    const Doubles dy = cotangent_of<TypeParam>(p.all);
    for (Isa isa : isas()) {
      FusedSequence<TypeParam> plain(p, dy), twice(p, dy);
      plain.run(isa);
      twice.run(isa);
      const std::vector<TypeParam> residual = normal_values<TypeParam>(p.all.x.size(), 10);
      twice.dx = residual;
      twice.backward.norm.dx_add = twice.dx.data();  // in place
      run_on(isa, twice.backward);
      for (int b = 0; b < p.all.batch; ++b) {
        const auto once = plain.valid(plain.dx, b), sum = twice.valid(twice.dx, b);
        const auto waiting = plain.valid(residual, b);
        for (std::size_t i = 0; i < once.size(); ++i) {
          const double want = as_double(once[i]) + as_double(waiting[i]);
          EXPECT_NEAR(as_double(sum[i]), want, 4 * epsilon_of<TypeParam>() * (1 + std::fabs(want)));
        }
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

TYPED_TEST(DtnSequence, AnyGradientIsOptional) {
  const SequenceProblem p = padded_problem<TypeParam>(140, DtnVariant::kPaper);
  const Doubles dy = cotangent_of<TypeParam>(p.all);
  for (Isa isa : isas()) {
    FusedSequence<TypeParam> all(p, dy), only_x(p, dy), no_x(p, dy);
    DtnNormBackward& b = only_x.backward.norm;
    b.dweight = b.dbias = b.dlambda_mean = b.dlambda_var = b.dpos_weight = nullptr;
    no_x.backward.norm.dx = nullptr;
    for (auto* run : {&all, &only_x, &no_x}) run->run(isa);
    EXPECT_TRUE(same_bits(only_x.dx, all.dx));
    EXPECT_TRUE(no_x.same_parameters(all));
    EXPECT_EQ(largest(doubles(only_x.dpos_weight)), 0);
  }
}

// The comparison with the oracle must detect a backward pass that is wrong in one place.
TEST(DtnSequenceMutations, AreDetected) {
  const SequenceProblem p =
      make_sequence<double>({40, 33}, 40, 10, 2, -0.25, 1.2, DtnVariant::kPaper);
  const Doubles dy = cotangent_of<double>(p.all);
  const Gradients expected = p.backward(dy);
  auto broken = [&](auto&& mutate) {
    FusedSequence<double> fused(p, dy);
    run_on(current_isa(), fused.forward);
    mutate(fused);
    run_on(current_isa(), fused.backward);
    return fused.gradients();
  };
  EXPECT_LE(error(broken([](auto&) {}).x, expected.x), 1e-11);
  EXPECT_GT(error(broken([](auto& f) { f.lengths[1] = 34; }).bias, expected.bias), 1e-3);
  const Gradients mirrored = broken([](auto& f) { f.pos_weight[0] = -f.pos_weight[0]; });
  EXPECT_GT(error(mirrored.pos_weight, expected.pos_weight), 1e-3);
  EXPECT_GT(error(mirrored.x, expected.x), 1e-3);
  const Gradients wider = broken([](auto& f) { f.pos_weight[2] *= 0.99; });
  EXPECT_GT(error(wider.pos_weight, expected.pos_weight), 1e-4);
}

// Diverged weights do not end the program.
TEST(DtnSequenceNumerics, NonFiniteWeights) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (auto [a_x, a_d] : {std::pair{nan, -1.0},
                          {0.5, nan},
                          {inf, -1.0},
                          {-inf, 0.0},
                          {0.5, inf},
                          {0.5, -inf},
                          {1e30, -1e-30},
                          {-1e30, 1e-30},
                          {0.1, -1e-40}}) {
    SequenceProblem p = make_sequence<float>({70, 12}, 80, 10, 1, -1, 0, DtnVariant::kPaper);
    p.all.pos_weight = {a_x, 0, a_d};
    FusedSequence<float> fused(p, cotangent_of<float>(p.all));
    fused.run(current_isa());
    if (std::isfinite(a_x) && std::isfinite(a_d)) {
      EXPECT_TRUE(std::isfinite(largest(doubles(fused.y)))) << a_x << " " << a_d;
    }
  }
}

TEST(DtnSequenceErrors, RejectsIntegers) {
  const SequenceProblem p = make_sequence<float>({2}, 2, 4, 2, -1, 0, DtnVariant::kPaper);
  FusedSequence<float> fused(p, p.all.x);
  fused.forward.norm.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), fused.forward), Error);
}

}  // namespace
}  // namespace dtn::test
