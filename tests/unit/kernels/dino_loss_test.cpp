#include "kernels/loss/dino_loss.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "dtn/core/check.h"
#include "unit/kernels/dino_loss_problem.h"

DTN_RUN_ON_EACH_ISA(DinoLossForward)
DTN_RUN_ON_EACH_ISA(DinoLossBackward)
DTN_RUN_ON_EACH_ISA(DinoCenterStep)

namespace dtn::test {
namespace {

// Runs both passes. The gradients written over the logits must have the same bits.
template <class T>
typename DinoProblem<T>::Result run_both(const DinoProblem<T>& p, Isa isa) {
  using A = AccumulatorOf<T>;
  const auto rows = static_cast<std::size_t>((2 + p.local_views) * p.samples);
  const A poison = std::numeric_limits<A>::quiet_NaN();
  typename DinoProblem<T>::Result r{std::vector<A>(kDinoFigures, poison),
                                    std::vector<A>(rows, poison),
                                    std::vector<A>(static_cast<std::size_t>(2 * p.samples), poison),
                                    std::vector<A>(static_cast<std::size_t>(p.outputs), poison),
                                    std::vector<T>(p.student.size(), static_cast<T>(poison))};
  const auto figure = [&](DinoFigure i) { return &r.figures[i]; };
  run_on(isa, DinoLossForward{p.inputs(), r.student_lse.data(), r.teacher_lse.data(), figure(kLoss),
                              figure(kLossGlobal), figure(kLossLocal), figure(kTeacherEntropy),
                              figure(kCenterNorm)});
  DinoLossBackward backward{p.inputs(),  r.student_lse.data(), r.teacher_lse.data(),
                            &p.upstream, r.dlogits.data(),     r.column_sums.data()};
  run_on(isa, backward);
  std::vector<T> in_place = p.student;
  std::vector<A> sums = r.column_sums;
  backward.student = backward.dstudent = in_place.data();
  backward.column_sums = sums.data();
  run_on(isa, backward);
  EXPECT_TRUE(same_bits(in_place, r.dlogits) && same_bits(sums, r.column_sums)) << "in place";
  return r;
}

template <class T>
void expect_near(const std::vector<T>& got, const Doubles& want, const Doubles& errors,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size());
  // Denormals may become 0.
  constexpr double kDenormal = std::is_same_v<AccumulatorOf<T>, float> ? 0x1p-125 : 0x1p-1021;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double error = errors[i] + kDenormal;
    if (std::is_same_v<T, bfloat16>) error += 0x1.02p-8 * (std::abs(want[i]) + errors[i]);
    ASSERT_NEAR(as_double(got[i]), want[i], error) << what << " " << i;
  }
}

template <class T>
void check(const DinoProblem<T>& p, Isa isa) {
  SCOPED_TRACE(cat(name_of(isa), " n ", p.samples, " L ", p.local_views, " K ", p.outputs));
  const DinoOracle want = p.oracle();
  const auto got = run_both(p, isa);
  expect_near(got.figures, want.figures, want.figure_errors, "figure");
  expect_near(got.dlogits, want.dlogits, want.dlogit_errors, "gradient");
  expect_near(got.column_sums, want.column_sums, want.column_sum_errors, "column sum");
}

template <class T>
class DinoLoss : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(DinoLoss, Types);

TYPED_TEST(DinoLoss, MatchesPairsInFloat64) {
  for (std::int64_t outputs : {2, 7, 64, 1000, 1025, 2500}) {
    for (std::int64_t local_views : {0, 1, 8}) {
      for (std::int64_t samples : {1, 3}) {
        const DinoProblem<TypeParam> p(samples, local_views, outputs);
        for (Isa isa : isas()) check(p, isa);
      }
    }
  }
}

TYPED_TEST(DinoLoss, MatchesPairsInFloat64ForWideOutput) {
  const DinoProblem<TypeParam> p(1, 2, 65536);
  for (Isa isa : isas()) check(p, isa);
}

// Arguments of a softmax up to 1e5.
TYPED_TEST(DinoLoss, AccurateForLargeLogitsAndLowTemperature) {
  for (std::int64_t outputs : {37, 1500}) {
    DinoProblem<TypeParam> p(2, 1, outputs, 1000);
    p.teacher_temp = 0.01;
    for (Isa isa : isas()) check(p, isa);
  }
}

// Uniform outputs give ln K.
TYPED_TEST(DinoLoss, LogOfWidthAtUniformOutputs) {
  using T = TypeParam;
  DinoProblem<T> p(2, 3, 3000);
  p.student.assign(p.student.size(), static_cast<T>(0.25f));
  p.teacher.assign(p.teacher.size(), static_cast<T>(-4.0f));
  p.student_scale.assign(p.student_scale.size(), 1);
  p.teacher_scale.assign(p.teacher_scale.size(), 1);
  p.center.assign(p.center.size(), 0);
  for (Isa isa : isas()) {
    const auto r = run_both(p, isa);
    for (DinoFigure i : {kLoss, kLossGlobal, kLossLocal, kTeacherEntropy}) {
      EXPECT_NEAR(r.figures[i], std::log(3000.0), 1e-4);
    }
    EXPECT_EQ(r.figures[kCenterNorm], 0);
  }
}

TYPED_TEST(DinoLoss, NaNReachesLossAndItsOwnSampleOnly) {
  using T = TypeParam;
  constexpr std::int64_t kOutputs = 1100;
  for (Isa isa : isas()) {
    for (std::size_t column : {0, 17, 1099}) {
      DinoProblem<T> p(2, 1, kOutputs);
      // Local view of sample 1.
      const auto row = static_cast<std::size_t>(p.inputs().student_row(1, 2) * kOutputs);
      p.student[row + column] = static_cast<T>(std::numeric_limits<AccumulatorOf<T>>::quiet_NaN());
      const auto r = run_both(p, isa);
      EXPECT_TRUE(std::isnan(r.figures[kLoss]) && std::isnan(r.figures[kLossLocal]));
      EXPECT_TRUE(std::isfinite(r.figures[kLossGlobal]));
      EXPECT_TRUE(std::isfinite(r.figures[kTeacherEntropy]));
      EXPECT_TRUE(std::isnan(as_double(r.dlogits[row])));
      EXPECT_TRUE(std::isfinite(as_double(r.dlogits[0])));
    }
  }
}

TYPED_TEST(DinoLoss, SameBitsForAnyNumberOfThreads) {
  for (auto [samples, outputs] : {std::pair<std::int64_t, std::int64_t>{1, 5000}, {5, 300}}) {
    const DinoProblem<TypeParam> p(samples, 2, outputs);
    for (Isa isa : isas()) {
      std::optional<typename DinoProblem<TypeParam>::Result> first;
      for (int threads : kThreadCounts) {
        Threads scope(threads);
        const auto r = run_both(p, isa);
        if (!first) first = r;
        EXPECT_TRUE(r == *first) << name_of(isa) << ", " << threads << " threads";
      }
    }
  }
}

TYPED_TEST(DinoLoss, CenterMovesTowardsMeanOfTeacher) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  for (std::int64_t outputs : {1, 7, 1025}) {
    for (std::int64_t rows : {2, 34}) {
      const auto teacher = normal_values<T>(rows * outputs, 1);
      const auto scale = normal_values<A>(outputs, 2, 1, 0.1),
                 center = normal_values<A>(outputs, 3);
      const auto before = normal_values<A>(outputs, 4);
      for (Isa isa : isas()) {
        auto next = before;
        run_on(isa, DinoCenterStep{DTypeOf<T>::value, rows, outputs, teacher.data(), scale.data(),
                                   center.data(), 0.3, next.data()});
        for (std::size_t k = 0; k < next.size(); ++k) {
          double mean = 0, size = std::abs(as_double(center[k])) + std::abs(as_double(before[k]));
          for (std::int64_t r = 0; r < rows; ++r) {
            const double t =
                as_double(scale[k]) * as_double(teacher[static_cast<std::size_t>(r * outputs) + k]);
            mean += t / static_cast<double>(rows);
            size += std::abs(t) / static_cast<double>(rows);
          }
          const double want = as_double(before[k]) + 0.3 * (mean - as_double(center[k]));
          ASSERT_NEAR(as_double(next[k]), want, 8 * epsilon_of<A>() * size) << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
