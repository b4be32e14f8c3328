#include "kernels/detect/roi_align.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"
#include "unit/kernels/roi_align_problem.h"

DTN_RUN_ON_EACH_ISA(RoiAlignForward)
DTN_RUN_ON_EACH_ISA(RoiAlignBackward)

namespace dtn::test {
namespace {

// A case with features and a gradient of the outputs.
template <class T>
struct Problem {
  RoiCase rois;
  std::vector<std::vector<T>> features;
  std::vector<T> dy;

  explicit Problem(RoiCase c) : rois(std::move(c)), dy(normal_values<T>(rois.outputs(), 9)) {
    for (std::size_t l = 0; l < rois.grid_h.size(); ++l) {
      features.push_back(normal_values<T>(rois.cells(l), static_cast<unsigned>(l)));
    }
  }

  struct Result {
    std::vector<T> y;
    std::vector<std::vector<T>> dfeatures;
  };
  // Outputs are NaN until they are written.
  Result run_both(Isa isa) const {
    constexpr DType dtype = DTypeOf<T>::value;
    const T nan = static_cast<T>(std::numeric_limits<AccumulatorOf<T>>::quiet_NaN());
    Result r{std::vector<T>(dy.size(), nan), {}};
    RoiAlignForward forward{rois.shape(dtype), {}, r.y.data()};
    RoiAlignBackward backward{rois.shape(dtype), dy.data(), {}};
    for (std::size_t l = 0; l < features.size(); ++l) {
      r.dfeatures.emplace_back(features[l].size(), nan);
      forward.features[l] = features[l].data();
      backward.dfeatures[l] = r.dfeatures[l].data();
    }
    run_on(isa, forward);
    run_on(isa, backward);
    return r;
  }

  // The values sample by sample. `sizes` bound the rounding relative to float's epsilon: sums of
  // absolute terms, plus the rounding of positions, which are float64 numbers below 64.
  struct Expected {
    std::vector<double> y, y_sizes;
    std::vector<std::vector<double>> dfeatures, dfeatures_sizes;
  };
  Expected expected() const {
    const auto count = [](const auto& v) { return std::vector<double>(v.size()); };
    Expected e{count(dy), count(dy), {}, {}};
    for (const auto& f : features) {
      e.dfeatures.push_back(count(f)), e.dfeatures_sizes.push_back(count(f));
    }
    for (std::size_t r = 0; r < rois.image.size(); ++r) {
      const auto l = static_cast<std::size_t>(rois.level[r]);
      rois.for_each_weight(r, [&](std::int64_t output, std::int64_t cell, double weight,
                                  double share) {
        for (std::int64_t c = 0; c < rois.channels; ++c) {
          const auto o = static_cast<std::size_t>(output * rois.channels + c);
          const auto i = static_cast<std::size_t>(cell * rois.channels + c);
          const double of_y = weight * as_double(features[l][i]), of_x = weight * as_double(dy[o]);
          const double moved = share * 64 * 0x1p-52 / epsilon_of<AccumulatorOf<T>>();
          e.y[o] += of_y, e.dfeatures[l][i] += of_x;
          e.y_sizes[o] += std::abs(of_y) + moved * std::abs(as_double(features[l][i]));
          e.dfeatures_sizes[l][i] += std::abs(of_x) + moved * std::abs(as_double(dy[o]));
        }
      });
    }
    return e;
  }
};

// Sums have at most a few hundred terms, whose weights are rounded once.
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want,
                 const std::vector<double>& sizes, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  const double eps = 16 * epsilon_of<AccumulatorOf<T>>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    double bound = eps * sizes[i];
    if (std::is_same_v<T, bfloat16>) bound += 0x1.02p-8 * std::abs(want[i]);
    ASSERT_NEAR(as_double(got[i]), want[i], bound + 1e-30) << what << " " << i;
  }
}

template <class T>
void check(const Problem<T>& problem, const std::string& what) {
  const auto want = problem.expected();
  for (Isa isa : isas()) {
    SCOPED_TRACE(cat(name_of(isa), " ", what));
    const auto got = problem.run_both(isa);
    expect_near(got.y, want.y, want.y_sizes, "output");
    for (std::size_t l = 0; l < got.dfeatures.size(); ++l) {
      expect_near(got.dfeatures[l], want.dfeatures[l], want.dfeatures_sizes[l], cat("level ", l));
    }
  }
}

template <class T>
class RoiAlign : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(RoiAlign, Types);

TYPED_TEST(RoiAlign, MatchesSamples) {
  const std::int64_t sizes[][2] = {{1, 5}, {2, 16}, {7, 1}, {7, 83}, {7, 64}, {14, 5}};
  for (const auto& [size, channels] : sizes) {
    RoiCase c;
    c.size = size, c.channels = channels;
    c.add_all_kinds();
    check(Problem<TypeParam>(c), cat(size, " bins, ", channels, " channels"));
  }
  RoiCase one;  // a grid of one cell
  one.grid_h = {1}, one.grid_w = {1};
  one.add(0, 0, 0, 0, 4, 4);
  one.add(1, 0, -3, 1, 2, 30);
  check(Problem<TypeParam>(one), "one cell");
  check(Problem<TypeParam>(RoiCase()), "no boxes: the gradient is 0");
}

TYPED_TEST(RoiAlign, ConstantFeaturesStay) {
  for (Isa isa : isas()) {
    RoiCase c;
    c.add(0, 0, 3.3f, 5.1f, 40.2f, 33.7f);
    c.add(0, 0, 0, 0, 68, 48);
    c.add(0, 1, 30, 30, 20, 40);
    Problem<TypeParam> problem(c);
    for (auto& level : problem.features) {
      std::fill(level.begin(), level.end(), static_cast<TypeParam>(AccumulatorOf<TypeParam>(1.5)));
    }
    const auto y = problem.run_both(isa).y;
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(as_double(y[i]), i < y.size() / 3 * 2 ? 1.5 : 0, 1e-5) << i;
    }
  }
}

TYPED_TEST(RoiAlign, InvalidPlaceGivesNaNAndNoGradient) {
  for (Isa isa : isas()) {
    RoiCase c;
    c.add(0, 0, 3, 5, 40, 33);
    const Problem<TypeParam> right(c);
    c.add(2, 0, 3, 5, 40, 33);
    c.add(0, -1, 3, 5, 40, 33);
    const Problem<TypeParam> wrong(c);
    const auto want = right.run_both(isa), got = wrong.run_both(isa);
    for (std::size_t i = 0; i < got.y.size(); ++i) {
      ASSERT_EQ(std::isnan(as_double(got.y[i])), i >= want.y.size()) << i;
    }
    EXPECT_TRUE(same_bits(got.dfeatures[0], want.dfeatures[0]));
    EXPECT_TRUE(same_bits(got.dfeatures[1], want.dfeatures[1]));
  }
}

TYPED_TEST(RoiAlign, BoxesThatAreNotFiniteGiveZero) {
  const float inf = std::numeric_limits<float>::infinity(), nan = inf - inf;
  for (Isa isa : isas()) {
    RoiCase c;
    c.add(0, 0, 3, 5, inf, 33);
    c.add(0, 0, nan, 5, 40, 33);
    c.add(0, 0, 3, -inf, 40, inf);
    c.add(0, 0, -3e38f, 0, 3e38f, 10);
    const auto got = Problem<TypeParam>(c).run_both(isa);
    for (const auto& v : got.y) ASSERT_EQ(as_double(v), 0);
    for (const auto& v : got.dfeatures[0]) ASSERT_EQ(as_double(v), 0);
  }
}

TYPED_TEST(RoiAlign, LevelsWithoutGradientAreSkipped) {
  RoiCase c;
  c.add_all_kinds();
  const Problem<TypeParam> problem(c);
  for (Isa isa : isas()) {
    const auto want = problem.run_both(isa);
    std::vector<TypeParam> only(want.dfeatures[1].size());
    RoiAlignBackward args{c.shape(DTypeOf<TypeParam>::value), problem.dy.data(), {}};
    args.dfeatures[1] = only.data();
    run_on(isa, args);
    EXPECT_TRUE(same_bits(only, want.dfeatures[1]));
  }
}

TYPED_TEST(RoiAlign, SameBitsForAnyNumberOfThreads) {
  RoiCase c;
  c.channels = 67, c.size = 3;
  for (int i = 0; i < 4; ++i) c.add_all_kinds();
  const Problem<TypeParam> problem(c);
  for (Isa isa : isas()) {
    std::optional<typename Problem<TypeParam>::Result> first;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      auto r = problem.run_both(isa);
      if (!first) first = r;
      EXPECT_TRUE(same_bits(r.y, first->y)) << name_of(isa) << ", " << threads << " threads";
      for (std::size_t l = 0; l < r.dfeatures.size(); ++l) {
        EXPECT_TRUE(same_bits(r.dfeatures[l], first->dfeatures[l])) << "level " << l;
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
