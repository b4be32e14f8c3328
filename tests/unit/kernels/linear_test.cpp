#include "kernels/gemm/linear.h"

#include <gtest/gtest.h>

#include <tuple>

#include "dtn/core/check.h"
#include "kernels/gemm/gemm.h"
#include "unit/kernels/product_oracle.h"

namespace dtn::testing {
namespace {

struct Size {
  std::int64_t rows, in, out;
};
const Size kSizes[] = {{1, 1, 1}, {13, 7, 5}, {196, 48, 36}, {394, 61, 300}, {3, 197, 1000}};

class LinearTest : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  void SetUp() override { before_ = force_eigen_gemm(std::get<1>(GetParam())); }
  void TearDown() override { force_eigen_gemm(before_); }
  DType dtype() const { return std::get<0>(GetParam()); }
  DType accumulator() const { return accumulator_of(dtype()); }
  Array random(std::int64_t count, unsigned seed, double scale = 1) const {
    return Array(dtype(), count).randomize(seed, scale);
  }
  Array random_wide(std::int64_t count, unsigned seed) const {
    return Array(accumulator(), count).randomize(seed);
  }

 private:
  bool before_ = false;
};

// x W^T + bias in float64; [rows, out].
std::vector<double> exact_forward(const Size& s, const Array& x, const Array& w,
                                  const Array* bias) {
  std::vector<double> z(s.rows * s.out);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      double sum = bias ? bias->get(o) : 0;
      for (std::int64_t i = 0; i < s.in; ++i) sum += x.get(r * s.in + i) * w.get(o * s.in + i);
      z[r * s.out + o] = sum;
    }
  }
  return z;
}

// Weights of size 1 / sqrt(in) keep the outputs near 1, where gelu is curved.
double weight_scale(const Size& s) { return 1 / std::sqrt(static_cast<double>(s.in)); }

// Partial sums are smaller than those of unit normals by the factor weight_scale; the bias is not.
double tolerance(DType dtype, const Size& s, double value) {
  return product_tolerance(dtype, dtype, s.in, value);
}

TEST_P(LinearTest, ForwardWithAndWithoutBias) {
  for (const Size& s : kSizes) {
    Array x = random(s.rows * s.in, 1), w = random(s.out * s.in, 2, weight_scale(s));
    Array bias = random_wide(s.out, 3), y(dtype(), s.rows * s.out);
    for (bool with_bias : {false, true}) {
      run(cpu_queue(), LinearForward{dtype(), s.rows, s.in, s.out, x.data(), w.data(),
                                     with_bias ? bias.data() : nullptr, y.data()});
      std::vector<double> z = exact_forward(s, x, w, with_bias ? &bias : nullptr);
      for (std::int64_t i = 0; i < y.count(); ++i) {
        ASSERT_NEAR(y.get(i), z[i], tolerance(dtype(), s, z[i])) << i;
      }
    }
  }
}

TEST_P(LinearTest, ForwardGeluKeepsPreactivation) {
  for (const Size& s : kSizes) {
    Array x = random(s.rows * s.in, 1), w = random(s.out * s.in, 2, weight_scale(s));
    Array bias = random_wide(s.out, 3);
    Array y(dtype(), s.rows * s.out), kept(dtype(), y.count()), alone(dtype(), y.count());
    LinearForward l{dtype(), s.rows, s.in, s.out, x.data(), w.data(), bias.data(), y.data()};
    l.gelu = true;
    l.preactivation = kept.data();
    run(cpu_queue(), l);
    std::vector<double> z = exact_forward(s, x, w, &bias);
    for (std::int64_t i = 0; i < y.count(); ++i) {
      ASSERT_NEAR(kept.get(i), z[i], tolerance(dtype(), s, z[i]));
      double want = exact_gelu(kept.get(i));
      ASSERT_NEAR(y.get(i), want, epsilon_of(dtype()) * (3 + std::abs(want)));
    }
    // Evaluation keeps no preactivation, and gives the same bits.
    l.preactivation = nullptr;
    l.y = alone.data();
    run(cpu_queue(), l);
    EXPECT_TRUE(alone.same_bits(y));
  }
}

TEST_P(LinearTest, ForwardResidualAndDropPath) {
  const Size s{394, 61, 300};
  const std::int64_t per_scale = 197;
  Array x = random(s.rows * s.in, 1), w = random(s.out * s.in, 2, weight_scale(s));
  Array bias = random_wide(s.out, 3), residual = random(s.rows * s.out, 4);
  Array scale(accumulator(), 2);
  scale.set(0, 0);
  scale.set(1, 1.25);
  std::vector<double> z = exact_forward(s, x, w, &bias);
  for (int with = 1; with < 4; ++with) {
    bool with_residual = with & 1, with_scale = with & 2;
    Array y = with_residual ? residual : Array(dtype(), s.rows * s.out);
    LinearForward l{dtype(), s.rows, s.in, s.out, x.data(), w.data(), bias.data(), y.data()};
    l.residual = with_residual ? y.data() : nullptr;  // in place
    l.row_scale = with_scale ? scale.data() : nullptr;
    l.rows_per_scale = per_scale;
    run(cpu_queue(), l);
    for (std::int64_t i = 0; i < y.count(); ++i) {
      double factor = with_scale ? scale.get(i / s.out / per_scale) : 1;
      double want = (with_residual ? residual.get(i) : 0) + factor * z[i];
      ASSERT_NEAR(y.get(i), want, tolerance(dtype(), s, std::abs(want) + std::abs(z[i]))) << i;
      if (factor == 0) {
        ASSERT_EQ(y.get(i), with_residual ? residual.get(i) : 0);
      }
    }
  }
}

// dy W in float64; [rows, in].
std::vector<double> exact_dx(const Size& s, const Array& dy, const Array& w) {
  std::vector<double> dx(s.rows * s.in);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      double d = dy.get(r * s.out + o);
      for (std::int64_t i = 0; i < s.in; ++i) dx[r * s.in + i] += d * w.get(o * s.in + i);
    }
  }
  return dx;
}

TEST_P(LinearTest, BackwardInput) {
  for (const Size& s : kSizes) {
    Array dy = random(s.rows * s.out, 1), w = random(s.out * s.in, 2), dx(dtype(), s.rows * s.in);
    run(cpu_queue(),
        LinearBackwardInput{dtype(), s.rows, s.in, s.out, dy.data(), w.data(), dx.data()});
    std::vector<double> want = exact_dx(s, dy, w);
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      ASSERT_NEAR(dx.get(i), want[i], product_tolerance(dtype(), dtype(), s.out, want[i]));
    }
  }
}

TEST_P(LinearTest, BackwardInputThroughGelu) {
  for (const Size& s : kSizes) {
    Array dy = random(s.rows * s.out, 1), w = random(s.out * s.in, 2);
    Array z = random(s.rows * s.in, 3), dx(dtype(), z.count()), h(dtype(), z.count());
    Array direct(dtype(), z.count());
    LinearBackwardInput l{dtype(),  s.rows,    s.in,     s.out,   dy.data(),
                          w.data(), dx.data(), z.data(), h.data()};
    run(cpu_queue(), l);
    std::vector<double> dh = exact_dx(s, dy, w);
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      double want = dh[i] * exact_gelu_slope(z.get(i));
      ASSERT_NEAR(dx.get(i), want, product_tolerance(dtype(), dtype(), s.out, dh[i]) * 1.13);
    }
    // The backward pass recomputes h of the forward pass bit by bit.
    run(cpu_queue(), GeluForward{dtype(), z.count(), z.data(), direct.data()});
    EXPECT_TRUE(h.same_bits(direct));
    Array in_place = z;
    l.preactivation = l.activation = in_place.data();
    run(cpu_queue(), l);
    EXPECT_TRUE(in_place.same_bits(h));
  }
}

TEST_P(LinearTest, BackwardWeightAddsToBothGradients) {
  for (const Size& s : {Size{1, 1, 1}, Size{13, 7, 5}, Size{196, 48, 36}, Size{3001, 33, 20}}) {
    Array dy = random(s.rows * s.out, 1), x = random(s.rows * s.in, 2);
    for (int which = 0; which < 4; ++which) {
      Array dw = random_wide(s.out * s.in, 3), db = random_wide(s.out, 4);
      Array dw0 = dw, db0 = db;
      run(cpu_queue(),
          LinearBackwardWeight{dtype(), s.rows, s.in, s.out, dy.data(), x.data(),
                               which & 1 ? dw.data() : nullptr, which & 2 ? db.data() : nullptr});
      ASSERT_TRUE((which & 1) || dw.same_bits(dw0));
      ASSERT_TRUE((which & 2) || db.same_bits(db0));
      for (std::int64_t o = 0; o < s.out; ++o) {
        double bias = db0.get(o);
        for (std::int64_t r = 0; r < s.rows; ++r) bias += dy.get(r * s.out + o);
        if (which & 2) {
          ASSERT_NEAR(db.get(o), bias, product_tolerance(dtype(), accumulator(), s.rows, bias));
        }
        if (!(which & 1)) continue;
        for (std::int64_t i = 0; i < s.in; ++i) {
          double sum = dw0.get(o * s.in + i);
          for (std::int64_t r = 0; r < s.rows; ++r)
            sum += dy.get(r * s.out + o) * x.get(r * s.in + i);
          ASSERT_NEAR(dw.get(o * s.in + i), sum,
                      product_tolerance(dtype(), accumulator(), s.rows, sum));
        }
      }
    }
  }
}

TEST_P(LinearTest, BitsDoNotDependOnThreads) {
  const Size s{788, 96, 320};
  Array x = random(s.rows * s.in, 1), w = random(s.out * s.in, 2), dy = random(s.rows * s.out, 3);
  Array bias = random_wide(s.out, 4), z = random(s.rows * s.in, 5);
  std::vector<Array> first;
  for (int threads : {1, 2, 3, 4, 8}) {
    Array y(dtype(), s.rows * s.out), kept(dtype(), y.count()), dx(dtype(), x.count());
    Array h(dtype(), x.count()), dw(accumulator(), w.count()), db(accumulator(), s.out);
    with_threads(threads, [&] {
      LinearForward f{dtype(), s.rows, s.in, s.out, x.data(), w.data(), bias.data(), y.data()};
      f.gelu = true;
      f.preactivation = kept.data();
      run(cpu_queue(), f);
      run(cpu_queue(), LinearBackwardInput{dtype(), s.rows, s.in, s.out, dy.data(), w.data(),
                                           dx.data(), z.data(), h.data()});
      run(cpu_queue(), LinearBackwardWeight{dtype(), s.rows, s.in, s.out, dy.data(), x.data(),
                                            dw.data(), db.data()});
    });
    std::vector<Array> results{y, kept, dx, h, dw, db};
    if (threads == 1) first = results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(results[i].same_bits(first[i])) << threads << " threads, result " << i;
    }
  }
}

TEST_P(LinearTest, WeightGradientOf50000RowsHasSameBitsForAnyThreads) {
  const Size s{50000, 72, 96};
  Array x = random(s.rows * s.in, 1), dy = random(s.rows * s.out, 2);
  Array first(accumulator(), 0), first_bias(accumulator(), 0);
  for (int threads : {1, 2, 3, 4, 8}) {
    Array dw(accumulator(), s.out * s.in), db(accumulator(), s.out);
    with_threads(threads, [&] {
      run(cpu_queue(), LinearBackwardWeight{dtype(), s.rows, s.in, s.out, dy.data(), x.data(),
                                            dw.data(), db.data()});
    });
    if (threads == 1) {
      first = dw;
      first_bias = db;
    }
    EXPECT_TRUE(dw.same_bits(first)) << threads;
    EXPECT_TRUE(db.same_bits(first_bias)) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(TypesAndBackends, LinearTest,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16,
                                                              DType::kFloat64),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           return cat(name_of(std::get<0>(test.param)),
                                      std::get<1>(test.param) ? "_eigen" : "_default");
                         });

TEST(Linear, RejectsInconsistentArguments) {
  std::vector<float> v(64);
  LinearForward l{DType::kFloat32, 2, 2, 2, v.data(), v.data(), nullptr, v.data() + 32};
  l.gelu = true;
  l.residual = v.data();
  EXPECT_THROW(run(cpu_queue(), l), Error);
  l.gelu = false;
  l.preactivation = v.data();
  EXPECT_THROW(run(cpu_queue(), l), Error);
}

}  // namespace
}  // namespace dtn::testing
