// Gains and shifts, activation functions and gathers on every instruction set, against float64.
#include "kernels/pointwise/modulate.h"

#include <gtest/gtest.h>

#include <functional>

#include "dtn/core/check.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/gather.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(ModulateForward)
DTN_RUN_ON_EACH_ISA(ModulateBackward)
DTN_RUN_ON_EACH_ISA(GateForward)
DTN_RUN_ON_EACH_ISA(GateBackward)
DTN_RUN_ON_EACH_ISA(ScaleShiftRowsForward)
DTN_RUN_ON_EACH_ISA(ScaleShiftRowsBackward)
DTN_RUN_ON_EACH_ISA(ActivationForward)
DTN_RUN_ON_EACH_ISA(ActivationBackward)
DTN_RUN_ON_EACH_ISA(NeighboursForward)
DTN_RUN_ON_EACH_ISA(NeighboursBackward)

namespace dtn::test {
namespace {

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class Modulate : public ::testing::Test {};
TYPED_TEST_SUITE(Modulate, Types);

// Bound for an elementwise result: a few roundings, the last one to T.
template <class T>
double rounding() {
  return 2 * epsilon_of<AccumulatorOf<T>>() + epsilon_of<T>() / 2;
}

// Expects |got[i] - what(i)| to be within `bound` times (|what(i)| + 1).
template <class T>
void expect_elements(const std::vector<T>& got, double bound,
                     const std::function<double(std::int64_t)>& what, const char* name) {
  double worst = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(got.size()); ++i) {
    const double want = what(i), error = std::fabs(as_double(got[i]) - want);
    worst = std::max(worst, error == error ? error / (1 + std::fabs(want)) : INFINITY);
  }
  EXPECT_LE(worst, bound) << name;
}

TYPED_TEST(Modulate, MatchesFormulas) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  constexpr DType dtype = DTypeOf<T>::value;
  struct Size {
    std::int64_t batch, tokens, channels;
  };
  for (Isa isa : isas()) {
    for (auto [batch, tokens, channels] : {Size{3, 17, 37}, Size{1, 1, 1}, Size{2, 5, 1027}}) {
      SCOPED_TRACE(cat(name_of(isa), " ", name_of(dtype), " ", tokens, " x ", channels));
      const std::int64_t rows = batch * tokens, count = rows * channels;
      const auto x = normal_values<T>(count, 1), dy = normal_values<T>(count, 2);
      const auto add = normal_values<T>(count, 3), modulation = normal_values<T>(2 * count, 4);
      const auto gate = normal_values<A>(batch * channels, 5);
      const auto row_gain = normal_values<A>(rows, 6), row_shift = normal_values<A>(rows, 7);
      std::vector<T> y(count), dx(count), dmodulation(2 * count);
      std::vector<A> dgate(batch * channels), dgain(rows), dshift(rows);
      auto of = [](const auto& v, std::int64_t i) { return as_double(v[i]); };
      auto shift_at = [&, c = channels](std::int64_t i) { return i / c * 2 * c + i % c; };
      auto gain_of = [&, c = channels](std::int64_t i) { return of(modulation, shift_at(i) + c); };
      const double bound = rounding<T>();

      run_on(isa, ModulateForward{dtype, rows, channels, x.data(), modulation.data(), y.data()});
      expect_elements(
          y, bound,
          [&](std::int64_t i) { return of(x, i) * (1 + gain_of(i)) + of(modulation, shift_at(i)); },
          "modulate");
      run_on(isa, ModulateBackward{dtype, rows, channels, x.data(), modulation.data(), dy.data(),
                                   add.data(), dx.data(), dmodulation.data()});
      expect_elements(
          dx, bound, [&](std::int64_t i) { return of(dy, i) * (1 + gain_of(i)) + of(add, i); },
          "modulate dx");
      expect_elements(
          dmodulation, bound,
          [&, c = channels](std::int64_t k) {
            const std::int64_t i = k / (2 * c) * c + k % c;
            return k % (2 * c) < c ? of(dy, i) : of(dy, i) * of(x, i);
          },
          "dmodulation");

      auto gate_of = [&, t = tokens, c = channels](std::int64_t i) {
        return of(gate, i / (t * c) * c + i % c);
      };
      run_on(isa, GateForward{dtype, batch, tokens, channels, x.data(), gate.data(), add.data(),
                              y.data()});
      expect_elements(
          y, bound, [&](std::int64_t i) { return gate_of(i) * of(x, i) + of(add, i); }, "gate");
      run_on(isa, GateBackward{dtype, batch, tokens, channels, x.data(), gate.data(), dy.data(),
                               dx.data(), dgate.data()});
      expect_elements(
          dx, bound, [&](std::int64_t i) { return gate_of(i) * of(dy, i); }, "gate dx");
      const double of_tokens = epsilon_of<A>() * static_cast<double>(tokens + 2);
      expect_elements(
          dgate, of_tokens,
          [&, t = tokens, c = channels](std::int64_t i) {
            double sum = 0;
            for (std::int64_t k = 0; k < t; ++k) {
              const std::int64_t e = (i / c * t + k) * c + i % c;
              sum += of(x, e) * of(dy, e);
            }
            return sum;
          },
          "dgate");

      run_on(isa, ScaleShiftRowsForward{dtype, rows, channels, x.data(), row_gain.data(),
                                        row_shift.data(), y.data()});
      expect_elements(
          y, bound,
          [&, c = channels](std::int64_t i) {
            return of(row_gain, i / c) * of(x, i) + of(row_shift, i / c);
          },
          "rows");
      run_on(isa, ScaleShiftRowsBackward{dtype, rows, channels, x.data(), row_gain.data(),
                                         dy.data(), dx.data(), dgain.data(), dshift.data()});
      expect_elements(
          dx, bound, [&, c = channels](std::int64_t i) { return of(row_gain, i / c) * of(dy, i); },
          "rows dx");
      const double of_channels =
          4 * epsilon_of<A>() * std::sqrt(static_cast<double>(channels)) + 2 * epsilon_of<A>();
      auto row_sum = [&, c = channels](std::int64_t r, bool product) {
        double sum = 0;
        for (std::int64_t i = r * c; i < (r + 1) * c; ++i) {
          sum += of(dy, i) * (product ? of(x, i) : 1);
        }
        return sum;
      };
      expect_elements(
          dgain, of_channels, [&](std::int64_t r) { return row_sum(r, true); }, "dgain");
      expect_elements(
          dshift, of_channels, [&](std::int64_t r) { return row_sum(r, false); }, "dshift");
    }
  }
}

TYPED_TEST(Modulate, Activations) {
  using T = TypeParam;
  constexpr DType dtype = DTypeOf<T>::value;
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  struct Function {
    Activation kind;
    std::function<double(double)> value, slope;
    // The exponent u of e^u if u is not x itself. The rounding errors of u, here and in the kernel,
    // enter the result multiplied by |u|.
    std::function<double(double)> exponent = [](double) { return 0; };
  };
  const double gelu_scale = 2 * std::sqrt(2 / M_PI);
  const Function functions[] = {
      {Activation::kRelu, [](double x) { return x > 0 ? x : 0; },
       [](double x) { return x > 0 ? 1 : 0; }},
      {Activation::kSilu, [=](double x) { return x * sigmoid(x); },
       [=](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }},
      {Activation::kTanh, [](double x) { return std::tanh(x); },
       [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }},
      {Activation::kGeluTanh,
       [=](double x) { return x * sigmoid(gelu_scale * (x + 0.044715 * x * x * x)); },
       [=](double x) {
         const double u = gelu_scale * (x + 0.044715 * x * x * x);
         const double slope = gelu_scale * (1 + 3 * 0.044715 * x * x);
         return sigmoid(u) + x * slope * sigmoid(u) * sigmoid(-u);
       },
       [=](double x) { return gelu_scale * (x + 0.044715 * x * x * x); }},
      {Activation::kQuickGelu, [=](double x) { return x * sigmoid(1.702 * x); },
       [=](double x) { return sigmoid(1.702 * x) * (1 + 1.702 * x * sigmoid(-1.702 * x)); },
       [](double x) { return 1.702 * x; }},
      {Activation::kHardswish, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; },
       [](double x) { return x <= -3  ? 0
                             : x >= 3 ? 1
                                      : (2 * x + 3) / 6; }},
  };
  for (Isa isa : isas()) {
    for (const Function& f : functions) {
      for (double spread : {0.01, 0.6, 5.0, 60.0}) {
        SCOPED_TRACE(cat(name_of(isa), " ", name_of(dtype), " ", spread));
        auto x = normal_values<T>(1003, 1, 0, spread), dy = normal_values<T>(1003, 2);
        x[5] = T(0.0f);
        std::vector<T> y(x.size()), dx(x.size());
        const auto count = static_cast<std::int64_t>(x.size());
        run_on(isa, ActivationForward{dtype, f.kind, count, x.data(), y.data()});
        run_on(isa, ActivationBackward{dtype, f.kind, count, x.data(), dy.data(), dx.data()});
        const double bound = 6 * epsilon_of<AccumulatorOf<T>>() + epsilon_of<T>() / 2;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double want = f.value(as_double(x[i]));
          // Small results are accurate too, except near e^-88.
          const double relative =
              bound + 2 * epsilon_of<AccumulatorOf<T>>() * std::fabs(f.exponent(as_double(x[i])));
          EXPECT_LE(std::fabs(as_double(y[i]) - want), relative * std::fabs(want) + 1e-36)
              << as_double(x[i]);
        }
        expect_elements(
            dx, bound, [&](std::int64_t i) { return as_double(dy[i]) * f.slope(as_double(x[i])); },
            "slope");
        auto in_place = dy;
        run_on(isa, ActivationBackward{dtype, f.kind, count, x.data(), in_place.data(),
                                       in_place.data()});
        EXPECT_TRUE(same_bits(in_place, dx));
      }
    }
  }
}

TYPED_TEST(Modulate, Neighbours) {
  using T = TypeParam;
  constexpr DType dtype = DTypeOf<T>::value;
  constexpr std::int64_t kBatch = 2, kHeight = 3, kWidth = 4, kChannels = 19;
  constexpr std::int64_t kCount = kBatch * kHeight * kWidth * kChannels;
  const auto x = normal_values<T>(kCount, 1), dy = normal_values<T>(9 * kCount, 2);
  std::vector<double> want(9 * kCount), dwant(kCount);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t i = 0; i < kHeight; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        for (std::int64_t k = 0; k < 9; ++k) {
          const std::int64_t u = i + k / 3 - 1, v = j + k % 3 - 1;
          if (u < 0 || u >= kHeight || v < 0 || v >= kWidth) continue;
          for (std::int64_t c = 0; c < kChannels; ++c) {
            const std::int64_t from = ((b * kHeight + u) * kWidth + v) * kChannels + c;
            const std::int64_t to = (((b * kHeight + i) * kWidth + j) * 9 + k) * kChannels + c;
            want[to] = as_double(x[from]);
            dwant[from] += as_double(dy[to]);
          }
        }
      }
    }
  }
  for (Isa isa : isas()) {
    std::vector<T> y(9 * kCount), dx(kCount);
    run_on(isa, NeighboursForward{dtype, kBatch, kHeight, kWidth, kChannels, x.data(), y.data()});
    run_on(isa,
           NeighboursBackward{dtype, kBatch, kHeight, kWidth, kChannels, dy.data(), dx.data()});
    expect_elements(
        y, 0, [&](std::int64_t i) { return want[i]; }, name_of(isa));
    expect_elements(
        dx, 4 * rounding<T>(), [&](std::int64_t i) { return dwant[i]; }, name_of(isa));
  }
}

}  // namespace
}  // namespace dtn::test
