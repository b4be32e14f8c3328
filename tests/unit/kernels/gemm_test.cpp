#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <tuple>

#include "dtn/core/check.h"
#include "kernels/gemm/gemm_onednn.h"
#include "unit/kernels/product_oracle.h"

namespace dtn::testing {
namespace {

struct Case {
  DType dtype, c_dtype;
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  std::int64_t batch = 1;
  std::int64_t padding = 0;  // extra elements in each row
  bool gather_a = false, gather_b = false;
};

struct Operands {
  Array a, b, c;
  Gemm gemm;
};

Operands make(const Case& t) {
  std::int64_t lda = (t.transpose_a ? t.m : t.k) + t.padding;
  std::int64_t ldb = (t.transpose_b ? t.k : t.n) + t.padding;
  std::int64_t ldc = t.n + t.padding;
  std::int64_t size_a = lda * (t.transpose_a ? t.k : t.m);
  std::int64_t size_b = ldb * (t.transpose_b ? t.n : t.k);
  Operands o{Array(t.dtype, t.batch * size_a),
             Array(t.dtype, t.batch * size_b),
             Array(t.c_dtype, t.batch * t.m * ldc),
             {}};
  o.a.randomize(1);
  o.b.randomize(2);
  o.c.randomize(3);
  o.gemm = {t.dtype,       t.c_dtype,    t.m,     t.n,    t.k,    o.a.data(),
            o.b.data(),    o.c.data(),   lda,     ldb,    ldc,    t.transpose_a,
            t.transpose_b, t.accumulate, t.batch, size_a, size_b, t.m * ldc};
  return o;
}

// Element (i, j) of the product, in float64.
double exact(const Case& t, const Operands& o, std::int64_t batch, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < t.k; ++k) {
    std::int64_t a = t.transpose_a ? k * o.gemm.lda + i : i * o.gemm.lda + k;
    std::int64_t b = t.transpose_b ? j * o.gemm.ldb + k : k * o.gemm.ldb + j;
    sum += o.a.get(batch * o.gemm.stride_a + a) * o.b.get(batch * o.gemm.stride_b + b);
  }
  return sum;
}

// Provides parts of a matrix with row stride `ld`; the kernel gets no pointer to the matrix.
GatherPart parts_of(const Array& matrix, std::int64_t ld) {
  return [&matrix, ld](std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
                       void* to) {
    const std::size_t unit = size_of(matrix.dtype());
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto from = static_cast<std::size_t>((row + r) * ld + col);
      std::memcpy(static_cast<char*>(to) + static_cast<std::size_t>(r * cols) * unit,
                  static_cast<const char*>(matrix.data()) + from * unit,
                  static_cast<std::size_t>(cols) * unit);
    }
  };
}

void run_case(const Case& t, Operands& o) {
  if (!t.gather_a && !t.gather_b) return run(cpu_queue(), o.gemm);
  const GatherPart a = parts_of(o.a, o.gemm.lda), b = parts_of(o.b, o.gemm.ldb);
  Gemm g = o.gemm;
  if (t.gather_a) g.a = nullptr;
  if (t.gather_b) g.b = nullptr;
  run_gathered(cpu_queue(), g, t.gather_a ? &a : nullptr, t.gather_b ? &b : nullptr);
}

void check(const Case& t) {
  SCOPED_TRACE(cat(name_of(t.dtype), " -> ", name_of(t.c_dtype), " m ", t.m, " n ", t.n, " k ", t.k,
                   " ta ", t.transpose_a, " tb ", t.transpose_b, " acc ", t.accumulate, " batch ",
                   t.batch, " padding ", t.padding));
  Operands o = make(t);
  Array before = o.c;
  run_case(t, o);
  int bad = 0;
  for (std::int64_t batch = 0; batch < t.batch; ++batch) {
    for (std::int64_t i = 0; i < t.m; ++i) {
      for (std::int64_t j = 0; j < o.gemm.ldc; ++j) {
        std::int64_t at = batch * o.gemm.stride_c + i * o.gemm.ldc + j;
        double got = o.c.get(at);
        if (j >= t.n) {  // padding between rows
          bad += got != before.get(at);
          continue;
        }
        double want = exact(t, o, batch, i, j) + (t.accumulate ? before.get(at) : 0);
        if (!(std::abs(got - want) <= product_tolerance(t.dtype, t.c_dtype, t.k, want))) {
          if (++bad < 4) ADD_FAILURE() << "at " << i << ", " << j << ": " << got << " for " << want;
        }
      }
    }
  }
  EXPECT_EQ(bad, 0);
}

// Parameters: the type, and true for the Eigen backend.
class GemmTest : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  void SetUp() override { before_ = force_eigen_gemm(std::get<1>(GetParam())); }
  void TearDown() override { force_eigen_gemm(before_); }
  DType dtype() const { return std::get<0>(GetParam()); }

 private:
  bool before_ = false;
};

TEST_P(GemmTest, AllTransposesOfOddSizes) {
  const std::int64_t sizes[][3] = {{1, 1, 1},   {7, 13, 1},    {1, 197, 13},   {13, 1, 196},
                                   {7, 48, 33}, {197, 13, 48}, {196, 197, 48}, {131, 300, 67}};
  for (auto [m, n, k] : sizes) {
    for (int flags = 0; flags < 16; ++flags) {
      check({dtype(), dtype(), m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, 1,
             (flags & 8) ? 5 : 0});
    }
  }
}

// Row strides that are multiples of 512 bytes: the code copies rows instead of reading columns.
TEST_P(GemmTest, RowStridesMultipleOf512Bytes) {
  for (int flags = 0; flags < 4; ++flags) {
    const bool transpose_a = (flags & 1) != 0, transpose_b = (flags & 2) != 0;
    check({dtype(), dtype(), 256, 384, 128, transpose_a, transpose_b, false});
    check({dtype(), accumulator_of(dtype()), 128, 512, 430, transpose_a, transpose_b, true});
    check({dtype(), dtype(), 40, 256, 130, transpose_a, transpose_b, true, 2});
  }
}

// The bits of a row do not depend on the number of rows. Where oneDNN has its own layouts, oneDNN
// decides this; the tests of padding and of evaluation in parts cover that case.
TEST_P(GemmTest, RowBitsDoNotDependOnNumberOfRows) {
  if (gemm_backend(dtype()) != std::string("onednn") || onednn::has_own_layout(DType::kFloat32)) {
    GTEST_SKIP() << "not arranged by this code";
  }
  for (int flags = 0; flags < 4; ++flags) {
    Case all{dtype(), dtype(), 300, 48, 130, false, (flags & 1) != 0, (flags & 2) != 0};
    Operands of_all = make(all);
    run(cpu_queue(), of_all.gemm);
    for (std::int64_t m : {1, 2, 5, 7, 8, 13, 76, 78, 100, 131, 145, 197, 262}) {
      Operands of_some = make(all);
      of_some.gemm.m = m;
      run(cpu_queue(), of_some.gemm);
      const std::size_t bytes = static_cast<std::size_t>(m * all.n) * size_of(dtype());
      EXPECT_EQ(std::memcmp(of_all.c.data(), of_some.c.data(), bytes), 0)
          << m << " rows, flags " << flags;
    }
  }
}

TEST_P(GemmTest, StoresInAccumulatorType) {
  DType c = accumulator_of(dtype());
  for (bool accumulate : {false, true}) {
    check({dtype(), c, 48, 96, 197, true, false, accumulate});
    check({dtype(), c, 300, 520, 64, false, true, accumulate});
    check({dtype(), c, 300, 520, 64, false, false, accumulate, 1, 3});
  }
}

TEST_P(GemmTest, SplitsLongReductions) {
  DType c = accumulator_of(dtype());
  check({dtype(), c, 20, 36, 5003, true, false, true});
  check({dtype(), c, 17, 9, 4099, false, true, false});
  check({dtype(), dtype(), 17, 9, 4099, false, false, true, 1, 2});
  check({dtype(), dtype(), 33, 40, 3136, true, false, false});
}

TEST_P(GemmTest, GathersFactors) {
  const DType c = accumulator_of(dtype());
  check({dtype(), dtype(), 131, 40, 61, false, true, false, 1, 0, true});
  check({dtype(), dtype(), 300, 500, 48, false, false, false, 1, 3, true});
  check({dtype(), c, 17, 9, 4099, false, true, true, 1, 0, true});
  check({dtype(), c, 20, 300, 1503, true, false, true, 1, 0, false, true});
  check({dtype(), dtype(), 33, 29, 57, false, false, true, 1, 1, true, true});
}

TEST_P(GemmTest, Batches) {
  for (int flags = 0; flags < 4; ++flags) {
    check({dtype(), dtype(), 49, 49, 24, (flags & 1) != 0, (flags & 2) != 0, false, 6});
    check({dtype(), accumulator_of(dtype()), 13, 7, 49, (flags & 1) != 0, (flags & 2) != 0, true, 5,
           1});
  }
}

TEST_P(GemmTest, SumsRowsOfTransposedFactor) {
  for (std::int64_t k : {13, 700, 5003}) {
    Case t{dtype(), accumulator_of(dtype()), 37, 20, k, true, false, true};
    Operands o = make(t);
    Array sums = Array(accumulator_of(dtype()), t.m).randomize(4);
    Array before = sums;
    o.gemm.a_sums = sums.data();
    run(cpu_queue(), o.gemm);
    for (std::int64_t i = 0; i < t.m; ++i) {
      double want = before.get(i);
      for (std::int64_t j = 0; j < k; ++j) want += o.a.get(j * o.gemm.lda + i);
      EXPECT_NEAR(sums.get(i), want, product_tolerance(dtype(), sums.dtype(), k, want));
    }
  }
}

TEST_P(GemmTest, BitsDoNotDependOnThreads) {
  DType c = accumulator_of(dtype());
  const Case cases[] = {{dtype(), c, 48, 56, 50000, true, false, true},
                        {dtype(), c, 432, 432, 3152, true, false, true},
                        {dtype(), dtype(), 591, 432, 432, false, true},
                        {dtype(), dtype(), 591, 700, 48, false, false},
                        {dtype(), c, 40, 24, 50000, false, true},
                        {dtype(), dtype(), 16, 1000, 432, false, true},
                        {dtype(), dtype(), 197, 197, 48, false, true, false, 9}};
  for (const Case& t : cases) {
    Array first(c, 0), first_sums(c, 0);
    for (int threads : {1, 2, 3, 4, 8}) {
      Operands o = make(t);
      Array sums(c, t.m);
      if (t.transpose_a) o.gemm.a_sums = sums.data();
      with_threads(threads, [&] { run(cpu_queue(), o.gemm); });
      if (threads == 1) {
        first = o.c;
        first_sums = sums;
      }
      EXPECT_TRUE(o.c.same_bits(first)) << threads << " threads, k " << t.k;
      EXPECT_TRUE(sums.same_bits(first_sums)) << threads << " threads, k " << t.k;
    }
  }
}

TEST_P(GemmTest, SameBitsInsideParallelLoop) {
  Case t{dtype(), dtype(), 300, 300, 96, false, true};
  Operands outside = make(t), inside = make(t);
  with_threads(4, [&] {
    run(cpu_queue(), outside.gemm);
    parallel_for(3, [&](std::int64_t i) {
      if (i == 1) run(cpu_queue(), inside.gemm);
    });
    EXPECT_EQ(max_threads(), 4);  // unchanged
  });
  EXPECT_TRUE(outside.c.same_bits(inside.c));
}

TEST_P(GemmTest, NanAndInfinityPropagate) {
  for (std::int64_t m : {13, 300}) {
    Case t{dtype(), dtype(), m, 40, 50, false, true};
    Operands o = make(t);
    o.a.set(5 * t.k + 7, std::numeric_limits<double>::quiet_NaN());
    o.b.set(3 * t.k + 2, std::numeric_limits<double>::infinity());
    run(cpu_queue(), o.gemm);
    for (std::int64_t j = 0; j < t.n; ++j) EXPECT_TRUE(std::isnan(o.c.get(5 * t.n + j)));
    for (std::int64_t i = 0; i < t.m; ++i) {
      EXPECT_EQ(std::isfinite(o.c.get(i * t.n + 4)), i != 5);
      EXPECT_TRUE(i == 5 || std::isinf(o.c.get(i * t.n + 3)));
    }
  }
}

TEST_P(GemmTest, EmptyProducts) {
  Case t{dtype(), dtype(), 5, 6, 0};
  Operands o = make(t);
  o.gemm.accumulate = true;
  Array before = o.c;
  run(cpu_queue(), o.gemm);
  EXPECT_TRUE(o.c.same_bits(before));
  o.gemm.accumulate = false;
  run(cpu_queue(), o.gemm);
  for (std::int64_t i = 0; i < 30; ++i) EXPECT_EQ(o.c.get(i), 0);
  o = make({dtype(), dtype(), 0, 6, 4});
  run(cpu_queue(), o.gemm);
}

INSTANTIATE_TEST_SUITE_P(TypesAndBackends, GemmTest,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16,
                                                              DType::kFloat64),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           return cat(name_of(std::get<0>(test.param)),
                                      std::get<1>(test.param) ? "_eigen" : "_default");
                         });

TEST(Gemm, ReportsBackend) {
  EXPECT_STREQ(gemm_backend(DType::kFloat64), "eigen");
#if defined(DTN_HAVE_ONEDNN)
  EXPECT_STREQ(gemm_backend(DType::kFloat32), "onednn");
#else
  EXPECT_STREQ(gemm_backend(DType::kFloat32), "eigen");
#endif
  bool before = force_eigen_gemm(true);
  EXPECT_STREQ(gemm_backend(DType::kFloat32), "eigen");
  force_eigen_gemm(before);
}

TEST(Gemm, RejectsInvalidArguments) {
  Operands o = make({DType::kFloat32, DType::kFloat32, 4, 5, 6});
  Gemm g = o.gemm;
  g.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), g), Error);
  g = o.gemm;
  g.lda = 5;
  EXPECT_THROW(run(cpu_queue(), g), Error);
  g = o.gemm;
  g.ldc = 4;
  EXPECT_THROW(run(cpu_queue(), g), Error);
  g = o.gemm;
  g.c_dtype = DType::kFloat64;
  EXPECT_THROW(run(cpu_queue(), g), Error);
  g = o.gemm;
  g.a_sums = o.c.data();
  EXPECT_THROW(run(cpu_queue(), g), Error);
  const GatherPart nothing = [](auto...) {};
  g = o.gemm;
  g.transpose_b = true;
  g.ldb = g.k;
  EXPECT_THROW(run_gathered(cpu_queue(), g, nullptr, &nothing), Error);
  g = o.gemm;
  g.batch = 2;
  EXPECT_THROW(run_gathered(cpu_queue(), g, &nothing, nullptr), Error);
  g = o.gemm;
  g.m = -1;
  EXPECT_THROW(run(cpu_queue(), g), Error);
}

}  // namespace
}  // namespace dtn::testing
