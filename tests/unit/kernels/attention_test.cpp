// Attention and its gradients against an element-wise float64 softmax(q k^T scale) v, for every
// instruction set and type.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "dtn/core/parallel.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(AttentionForward)
DTN_RUN_ON_EACH_ISA(AttentionBackward)

namespace dtn {
namespace {

using std::int64_t;

struct Kernel {
  std::string name;
  std::function<void(CpuQueue&, const AttentionForward&)> forward;
  std::function<void(CpuQueue&, const AttentionBackward&)> backward;
};

std::vector<Kernel> kernels() {
  std::vector<Kernel> all;
  for (Isa isa : test::isas()) {
    all.push_back({name_of(isa), [isa](CpuQueue&, const AttentionForward& f) { run_on(isa, f); },
                   [isa](CpuQueue&, const AttentionBackward& b) { run_on(isa, b); }});
  }
  return all;
}

struct Size {
  int64_t b, t, h, d;
  int64_t qkv() const { return b * t * 3 * h * d; }
  int64_t out() const { return b * t * h * d; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  // Index of (image, token, part, head, channel) in qkv, or (image, token, head, channel) in out.
  int64_t at(int64_t image, int64_t token, int64_t part, int64_t head, int64_t c) const {
    return (((image * t + token) * 3 + part) * h + head) * d + c;
  }
  int64_t at(int64_t image, int64_t token, int64_t head, int64_t c) const {
    return ((image * t + token) * h + head) * d + c;
  }
};

std::ostream& operator<<(std::ostream& out, const Size& s) {
  return out << "B=" << s.b << " T=" << s.t << " H=" << s.h << " D=" << s.d;
}

struct Result {
  std::vector<double> out, lse, dqkv;
};

// The definition in float64.
Result naive(const Size& s, const std::vector<double>& qkv, const std::vector<double>& dout) {
  Result r{std::vector<double>(s.out()), std::vector<double>(s.b * s.h * s.t),
           std::vector<double>(s.qkv())};
  std::vector<double> p(s.t), dp(s.t);
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t h = 0; h < s.h; ++h) {
      for (int64_t i = 0; i < s.t; ++i) {
        double top = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0;
        for (int64_t j = 0; j < s.t; ++j) {
          p[j] = dp[j] = 0;
          for (int64_t c = 0; c < s.d; ++c) {
            p[j] += qkv[s.at(b, i, 0, h, c)] * qkv[s.at(b, j, 1, h, c)] * s.scale();
            dp[j] += dout[s.at(b, i, h, c)] * qkv[s.at(b, j, 2, h, c)];
          }
          top = std::max(top, p[j]);
        }
        for (int64_t j = 0; j < s.t; ++j) sum += p[j] = std::exp(p[j] - top);
        for (int64_t j = 0; j < s.t; ++j) mean += (p[j] /= sum) * dp[j];
        r.lse[(b * s.h + h) * s.t + i] = top + std::log(sum);
        for (int64_t j = 0; j < s.t; ++j) {
          double ds = p[j] * (dp[j] - mean) * s.scale();
          for (int64_t c = 0; c < s.d; ++c) {
            r.out[s.at(b, i, h, c)] += p[j] * qkv[s.at(b, j, 2, h, c)];
            r.dqkv[s.at(b, i, 0, h, c)] += ds * qkv[s.at(b, j, 1, h, c)];
            r.dqkv[s.at(b, j, 1, h, c)] += ds * qkv[s.at(b, i, 0, h, c)];
            r.dqkv[s.at(b, j, 2, h, c)] += p[j] * dout[s.at(b, i, h, c)];
          }
        }
      }
    }
  }
  return r;
}

// Values are exact in bfloat16, so that every type computes the same problem.
std::vector<double> random_values(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<double> x(count);
  for (double& v : x) v = static_cast<float>(bfloat16(normal(engine)));
  return x;
}

template <class S>
std::vector<S> to_storage(const std::vector<double>& x) {
  std::vector<S> y;
  y.reserve(x.size());
  for (double v : x) {
    if constexpr (std::is_same_v<S, bfloat16>) {
      y.push_back(bfloat16(static_cast<float>(v)));
    } else {
      y.push_back(static_cast<S>(v));
    }
  }
  return y;
}

template <class S>
std::vector<double> to_double(const std::vector<S>& x, int64_t count) {
  std::vector<double> y(count);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<S, bfloat16>) {
      y[i] = static_cast<float>(x[i]);
    } else {
      y[i] = static_cast<double>(x[i]);
    }
  }
  return y;
}

constexpr int kGuard = 64;  // elements after each output that must stay unchanged

// Raw outputs, for bitwise comparison.
template <class S>
struct Raw {
  std::vector<S> out, dqkv;
  std::vector<AccumulatorOf<S>> lse;
};

template <class S>
Raw<S> run_raw(const Kernel& kernel, const Size& s, const std::vector<double>& qkv_values,
               const std::vector<double>& dout_values) {
  using A = AccumulatorOf<S>;
  std::vector<S> qkv = to_storage<S>(qkv_values), dout = to_storage<S>(dout_values);
  Raw<S> r;
  r.out = to_storage<S>(std::vector<double>(s.out() + kGuard, 777));
  r.dqkv = to_storage<S>(std::vector<double>(s.qkv() + kGuard, 777));
  r.lse.assign(s.b * s.h * s.t + kGuard, A{777});
  constexpr DType dtype = DTypeOf<S>::value;
  kernel.forward(cpu_queue(), AttentionForward{dtype, s.b, s.t, s.h, s.d, s.scale(), qkv.data(),
                                               r.out.data(), r.lse.data()});
  kernel.backward(cpu_queue(),
                  AttentionBackward{dtype, s.b, s.t, s.h, s.d, s.scale(), qkv.data(), r.out.data(),
                                    r.lse.data(), dout.data(), r.dqkv.data()});
  for (int i = 0; i < kGuard; ++i) {
    const S untouched = to_storage<S>({777})[0];
    EXPECT_EQ(std::memcmp(&r.out[s.out() + i], &untouched, sizeof(S)), 0) << kernel.name;
    EXPECT_EQ(std::memcmp(&r.dqkv[s.qkv() + i], &untouched, sizeof(S)), 0) << kernel.name;
    EXPECT_EQ(r.lse[s.b * s.h * s.t + i], A{777}) << kernel.name;
  }
  return r;
}

template <class S>
Result run_kernel(const Kernel& kernel, const Size& s, const std::vector<double>& qkv,
                  const std::vector<double>& dout) {
  Raw<S> raw = run_raw<S>(kernel, s, qkv, dout);
  return {to_double(raw.out, s.out()), to_double(raw.lse, s.b * s.h * s.t),
          to_double(raw.dqkv, s.qkv())};
}

template <class S>
constexpr double epsilon() {
  if constexpr (std::is_same_v<S, bfloat16>) return 0x1p-8;
  return std::numeric_limits<AccumulatorOf<S>>::epsilon();
}

double largest(const std::vector<double>& x) {
  double m = 0;
  for (double v : x) m = std::max(m, std::abs(v));
  return m;
}

// Largest difference as a fraction of `tolerance`; never below 1 if a value is NaN.
double misfit(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double difference = std::abs(got[i] - want[i]);
    if (!(difference <= tolerance * worst)) worst = difference / tolerance;
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

template <class S>
void expect_close(const Kernel& kernel, const Size& s, const std::vector<double>& qkv,
                  const std::vector<double>& dout, const Result& want) {
  Result got = run_kernel<S>(kernel, s, qkv, dout);
  std::ostringstream where;
  where << kernel.name << " " << name_of(DTypeOf<S>::value) << " " << s;
  // Four reductions follow one another (scores, their sum, dp, a product). The rounding of a score
  // is a relative error of its probability.
  double eps = epsilon<S>() * std::sqrt(2.0 * static_cast<double>(s.t + s.d)) +
               epsilon<AccumulatorOf<S>>() * largest(want.lse);
  EXPECT_LE(misfit(got.out, want.out, eps * largest(want.out)), 1) << "out " << where.str();
  // lse is never rounded to the storage type.
  double lse_eps = epsilon<AccumulatorOf<S>>() * std::sqrt(2.0 * static_cast<double>(s.t + s.d));
  if constexpr (std::is_same_v<S, bfloat16>) lse_eps += 4e-6;  // its 2^x is accurate to 3e-6
  EXPECT_LE(misfit(got.lse, want.lse, lse_eps * std::max(1.0, largest(want.lse))), 1)
      << "lse " << where.str();
  // Each part of dqkv is compared at its own magnitude; with one token dq and dk are 0.
  for (int part = 0; part < 3; ++part) {
    std::vector<double> g, w;
    for (int64_t row = 0; row < s.b * s.t; ++row) {
      for (int64_t c = 0; c < s.h * s.d; ++c) {
        g.push_back(got.dqkv[(row * 3 + part) * s.h * s.d + c]);
        w.push_back(want.dqkv[(row * 3 + part) * s.h * s.d + c]);
      }
    }
    double magnitude =
        s.t == 1 ? std::max(1.0, largest(dout) * largest(qkv) * largest(qkv)) : largest(w);
    EXPECT_GT(magnitude, 0) << where.str();
    EXPECT_LE(misfit(g, w, eps * magnitude), 1) << "dq dk dv"[part * 3 + 1] << " " << where.str();
  }
}

void expect_all_close(const Size& s) {
  std::vector<double> qkv = random_values(s.qkv(), 1), dout = random_values(s.out(), 2);
  Result want = naive(s, qkv, dout);
  for (const Kernel& kernel : kernels()) {
    expect_close<float>(kernel, s, qkv, dout, want);
    expect_close<bfloat16>(kernel, s, qkv, dout, want);
    expect_close<double>(kernel, s, qkv, dout, want);
  }
}

TEST(Attention, MatchesDefinition) {
  int64_t heads = 0;
  for (int64_t t : {1, 2, 5, 49, 196, 197, 300}) {
    for (int64_t d : {48, 64, 7, 1, 33}) {
      heads = heads % 9 + 1;
      expect_all_close({t < 100 ? 2 : 1, t, heads, d});
    }
  }
}

TEST(Attention, MatchesDefinitionOverSeveralChunksOfKeys) {
  for (int64_t t : {513, 1024, 1100}) expect_all_close({1, t, 1, 24});
}

TEST(Attention, WideHeads) {
  for (int64_t d : {80, 96, 130}) expect_all_close({1, 50, 2, d});
}

TEST(Attention, GradientMatchesCentralDifferences) {
  const Size s{2, 5, 2, 3};
  std::vector<double> qkv = random_values(s.qkv(), 3), dout = random_values(s.out(), 4);
  const int before = max_threads();
  set_num_threads(1);  // hundreds of tiny problems
  for (const Kernel& kernel : kernels()) {
    Result analytic = run_kernel<double>(kernel, s, qkv, dout);
    EXPECT_GT(largest(analytic.dqkv), 0.1);
    auto loss = [&](const std::vector<double>& x) {
      Result r = run_kernel<double>(kernel, s, x, dout);
      double sum = 0;
      for (int64_t i = 0; i < s.out(); ++i) sum += r.out[i] * dout[i];
      return sum;
    };
    for (int64_t i = 0; i < s.qkv(); ++i) {
      std::vector<double> x = qkv;
      const double step = 1e-5;
      x[i] = qkv[i] + step;
      double up = loss(x);
      x[i] = qkv[i] - step;
      EXPECT_NEAR(analytic.dqkv[i], (up - loss(x)) / (2 * step), 1e-8) << kernel.name << " " << i;
    }
  }
  set_num_threads(before);
}

template <class S>
void expect_equal_bits_at_any_thread_count(const Size& s) {
  std::vector<double> qkv = random_values(s.qkv(), 5), dout = random_values(s.out(), 6);
  const int before = max_threads();
  for (const Kernel& kernel : kernels()) {
    set_num_threads(1);
    Raw<S> one = run_raw<S>(kernel, s, qkv, dout);
    for (int threads : {2, 3, 4, 8}) {
      set_num_threads(threads);
      Raw<S> many = run_raw<S>(kernel, s, qkv, dout);
      EXPECT_EQ(std::memcmp(one.out.data(), many.out.data(), one.out.size() * sizeof(S)), 0);
      EXPECT_EQ(std::memcmp(one.dqkv.data(), many.dqkv.data(), one.dqkv.size() * sizeof(S)), 0);
      EXPECT_EQ(one.lse, many.lse) << kernel.name << " threads " << threads;
    }
  }
  set_num_threads(before);
}

TEST(Attention, EqualBitsAtAnyThreadCount) {
  for (const Size& s : {Size{3, 197, 3, 48}, Size{2, 530, 2, 16}}) {
    expect_equal_bits_at_any_thread_count<float>(s);
    expect_equal_bits_at_any_thread_count<bfloat16>(s);
    expect_equal_bits_at_any_thread_count<double>(s);
  }
}

// Token i has one nonzero channel: +-200 at channel i mod D in q, at channel i / 3 mod D in k.
// Scores reach 200 * 200 / sqrt(D) > 1e4, so a key is certain, impossible or tied with equal keys.
template <class S>
void expect_huge_scores_survive(const Kernel& kernel, int64_t t) {
  const Size s{1, t, 1, 8};
  std::vector<double> qkv = random_values(s.qkv(), 7), dout = random_values(s.out(), 8);
  for (int64_t i = 0; i < s.t; ++i) {
    for (int64_t c = 0; c < s.d; ++c) {
      qkv[s.at(0, i, 0, 0, c)] = c == i % s.d ? (i % 3 ? 200 : -200) : 0;
      qkv[s.at(0, i, 1, 0, c)] = c == (i / 3) % s.d ? (i % 5 ? 200 : -200) : 0;
    }
  }
  Result want = naive(s, qkv, dout), got = run_kernel<S>(kernel, s, qkv, dout);
  // The rounding of a score, or of its log-sum-exp, of 1.5e4 is an error of the probability.
  double top = largest(want.lse), lse_error = epsilon<AccumulatorOf<S>>() * top;
  EXPECT_GT(top, 1e4);
  double eps = epsilon<S>() * std::sqrt(static_cast<double>(t)) + 2 * lse_error;
  EXPECT_LE(misfit(got.out, want.out, eps * largest(want.out)), 1) << kernel.name;
  EXPECT_LE(misfit(got.lse, want.lse, 2 * lse_error), 1) << kernel.name;
  EXPECT_LE(misfit(got.dqkv, want.dqkv, eps * largest(want.dqkv)), 1) << kernel.name;
}

TEST(Attention, HugeScores) {
  for (const Kernel& kernel : kernels()) {
    for (int64_t t : {40, 600}) {
      expect_huge_scores_survive<float>(kernel, t);
      expect_huge_scores_survive<bfloat16>(kernel, t);
      expect_huge_scores_survive<double>(kernel, t);
    }
  }
}

TEST(Attention, EqualScoresAverageValues) {
  const Size s{1, 197, 2, 48};
  std::vector<double> qkv = random_values(s.qkv(), 9), dout = random_values(s.out(), 10);
  for (int64_t i = 0; i < s.t; ++i) {
    for (int64_t c = 0; c < s.h * s.d; ++c) qkv[s.at(0, i, 1, 0, c)] = 0.5;
  }
  Result want = naive(s, qkv, dout);
  for (const Kernel& kernel : kernels()) {
    Result got = run_kernel<float>(kernel, s, qkv, dout);
    double eps = epsilon<float>() * std::sqrt(197.0);
    EXPECT_LE(misfit(got.out, want.out, eps * largest(want.out)), 1) << kernel.name;
    EXPECT_LE(misfit(got.dqkv, want.dqkv, eps * largest(want.dqkv)), 1) << kernel.name;
  }
}

// A NaN in one place reaches exactly the results that depend on it, within its head.
template <class S>
void expect_nan_spreads(const Kernel& kernel, const Size& s, int64_t token) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int64_t channel = s.d - 1;
  std::vector<double> qkv = random_values(s.qkv(), 11), dout = random_values(s.out(), 12);
  for (int part = 0; part < 4; ++part) {  // q, k, v, dout
    std::vector<double> x = qkv, dy = dout;
    (part == 3 ? dy[s.at(0, token, 0, channel)] : x[s.at(0, token, part, 0, channel)]) = nan;
    Result r = run_kernel<S>(kernel, s, x, dy);
    for (int64_t i = 0; i < s.t; ++i) {
      for (int64_t c = 0; c < s.d; ++c) {
        bool in_row = i == token, in_column = c == channel;
        bool out = (part == 0 && in_row) || part == 1 || (part == 2 && in_column);
        bool dq = part == 1 || part == 2 || in_row;  // v reaches delta of all rows through out
        bool dv = part < 2 || (part == 3 && in_column);
        auto is_nan = [&](double v) { return std::isnan(v); };
        ASSERT_EQ(is_nan(r.out[s.at(0, i, 0, c)]), out)
            << kernel.name << part << " " << i << " " << c;
        ASSERT_EQ(is_nan(r.dqkv[s.at(0, i, 0, 0, c)]), dq) << kernel.name << part << " " << i;
        ASSERT_TRUE(is_nan(r.dqkv[s.at(0, i, 1, 0, c)])) << kernel.name << part << " " << i;
        ASSERT_EQ(is_nan(r.dqkv[s.at(0, i, 2, 0, c)]), dv) << kernel.name << part << " " << i;
        ASSERT_FALSE(is_nan(r.out[s.at(0, i, 1, c)])) << "the other head";
        for (int p = 0; p < 3; ++p) ASSERT_FALSE(is_nan(r.dqkv[s.at(0, i, p, 1, c)]));
      }
      ASSERT_EQ(std::isnan(r.lse[i]), part == 1 || (part == 0 && i == token)) << kernel.name;
      ASSERT_FALSE(std::isnan(r.lse[s.t + i]));
    }
  }
}

TEST(Attention, PropagatesNan) {
  for (const Kernel& kernel : kernels()) {
    for (int64_t token : {0, 17, 36}) {
      expect_nan_spreads<float>(kernel, {1, 37, 2, 7}, token);
      expect_nan_spreads<bfloat16>(kernel, {1, 37, 2, 7}, token);
      expect_nan_spreads<double>(kernel, {1, 37, 2, 7}, token);
    }
    for (int64_t token : {3, 523}) {
      expect_nan_spreads<float>(kernel, {1, 525, 2, 3}, token);
      expect_nan_spreads<bfloat16>(kernel, {1, 525, 2, 3}, token);
    }
  }
}

TEST(Attention, DispatchesToCurrentInstructionSet) {
  const Size s{1, 49, 2, 48};
  std::vector<double> qkv = random_values(s.qkv(), 13), dout = random_values(s.out(), 14);
  for (const Kernel& kernel : kernels()) {
    if (kernel.name != name_of(current_isa())) continue;
    Raw<float> direct = run_raw<float>(kernel, s, qkv, dout);
    const Kernel dispatcher{"dispatched",
                            [](CpuQueue& queue, const AttentionForward& f) { run(queue, f); },
                            [](CpuQueue& queue, const AttentionBackward& b) { run(queue, b); }};
    Raw<float> dispatched = run_raw<float>(dispatcher, s, qkv, dout);
    EXPECT_EQ(direct.out, dispatched.out);
    EXPECT_EQ(direct.dqkv, dispatched.dqkv);
    return;
  }
  ADD_FAILURE() << "no kernel named " << name_of(current_isa());
}

TEST(Attention, EmptyInputIsNoOp) {
  for (const Kernel& kernel : kernels()) {
    for (const Size& s : {Size{0, 5, 2, 8}, Size{2, 0, 2, 8}, Size{2, 5, 0, 8}}) {
      EXPECT_TRUE(run_kernel<float>(kernel, s, {}, {}).out.empty());
    }
  }
}

}  // namespace
}  // namespace dtn
