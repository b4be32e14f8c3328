// Attention with a positional bias, and its gradients, against an element-wise float64 softmax, for
// every instruction set and type.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "each_isa.h"
#include "kernels/attention/attention.h"

DTN_RUN_ON_EACH_ISA(AttentionForward)
DTN_RUN_ON_EACH_ISA(AttentionBackward)

namespace dtn::test {
namespace {

using std::int64_t;
using Values = std::vector<double>;

struct Size {
  int64_t b, grid_h, grid_w, h, d;
  int64_t t() const { return grid_h * grid_w; }
  int64_t row() const { return h * d; }
  int64_t qkv() const { return b * t() * 3 * row(); }
  int64_t out() const { return b * t() * row(); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
};

std::ostream& operator<<(std::ostream& out, const Size& s) {
  return out << "B=" << s.b << " grid " << s.grid_h << "x" << s.grid_w << " H=" << s.h
             << " D=" << s.d;
}

// Values are exact in bfloat16, so that every type computes the same problem.
struct Problem {
  Size size;
  Values qkv, dout, weight;  // weight [H, 3]

  // Heads attend to nearby tokens around an offset. `distance` is a_d of the last head.
  explicit Problem(const Size& s, double distance = -0.125) : size(s) {
    auto exact = [](int64_t n, unsigned seed, double std) {
      Values values;
      for (bfloat16 v : normal_values<bfloat16>(n, seed, 0, std)) values.push_back(as_double(v));
      return values;
    };
    qkv = exact(s.qkv(), 1, 1);
    dout = exact(s.out(), 2, 1);
    weight = exact(3 * s.h, 3, 1);
    for (int64_t h = 0; h < s.h; ++h) {
      weight[3 * h + 2] = h + 1 < s.h ? -0.25 * static_cast<double>(h + 1) : distance;
    }
  }
};

struct Result {
  Values out, lse, dqkv, dweight;
};

// Rounding errors that the sizes do not determine: scores weighted by their probability, and the
// terms that cancel in the gradient of the weights.
struct Noise {
  double score = 0;
  Values dweight;
};

// The definition in float64.
Result definition(const Problem& p, Noise& noise) {
  const Size& s = p.size;
  const int64_t t = s.t(), row = s.row();
  Result r{Values(s.out()), Values(s.b * s.h * t), Values(s.qkv()), Values(3 * s.h)};
  noise.dweight.assign(3 * s.h, 0);
  Values prob(t), dp(t), offsets(3 * t);
  for (int64_t item = 0; item < s.b * s.h; ++item) {
    const int64_t b = item / s.h, h = item % s.h;
    const double* a = &p.weight[3 * h];
    auto at = [&](int64_t token, int part) { return ((b * t + token) * 3 + part) * row + h * s.d; };
    auto at_out = [&](int64_t token) { return (b * t + token) * row + h * s.d; };
    for (int64_t i = 0; i < t; ++i) {
      double top = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0, mean_terms = 0;
      Values magnitude(t);
      for (int64_t j = 0; j < t; ++j) {
        double dx = static_cast<double>(j % s.grid_w - i % s.grid_w);
        double dy = static_cast<double>(j / s.grid_w - i / s.grid_w);
        offsets[3 * j] = dx, offsets[3 * j + 1] = dy, offsets[3 * j + 2] = dx * dx + dy * dy;
        double score = 0, bias = a[2] * (dx * dx + dy * dy) + a[0] * dx + a[1] * dy;
        dp[j] = 0;
        for (int64_t c = 0; c < s.d; ++c) {
          score += p.qkv[at(i, 0) + c] * p.qkv[at(j, 1) + c] * s.scale();
          dp[j] += p.dout[at_out(i) + c] * p.qkv[at(j, 2) + c];
        }
        prob[j] = score + bias;
        magnitude[j] = std::abs(score) + std::abs(bias);
        top = std::max(top, prob[j]);
      }
      for (int64_t j = 0; j < t; ++j) sum += prob[j] = std::exp(prob[j] - top);
      for (int64_t j = 0; j < t; ++j) {
        prob[j] /= sum;
        mean += prob[j] * dp[j];
        noise.score = std::max(noise.score, prob[j] * magnitude[j]);
        for (int64_t c = 0; c < s.d; ++c) {
          r.out[at_out(i) + c] += prob[j] * p.qkv[at(j, 2) + c];
        }
      }
      r.lse[item * t + i] = top + std::log(sum);
      for (int64_t c = 0; c < s.d; ++c) {
        mean_terms += std::abs(r.out[at_out(i) + c] * p.dout[at_out(i) + c]);
      }
      double terms[3] = {};
      for (int64_t j = 0; j < t; ++j) {
        double ds = prob[j] * (dp[j] - mean);
        for (int k = 0; k < 3; ++k) {
          r.dweight[3 * h + k] += ds * offsets[3 * j + k];
          terms[k] += prob[j] * (std::abs(dp[j]) + mean_terms) * std::abs(offsets[3 * j + k]);
        }
        for (int64_t c = 0; c < s.d; ++c) {
          r.dqkv[at(i, 0) + c] += ds * s.scale() * p.qkv[at(j, 1) + c];
          r.dqkv[at(j, 1) + c] += ds * s.scale() * p.qkv[at(i, 0) + c];
          r.dqkv[at(j, 2) + c] += prob[j] * p.dout[at_out(i) + c];
        }
      }
      // Rounding errors may be correlated within a row, but not between rows.
      for (int k = 0; k < 3; ++k) noise.dweight[3 * h + k] += terms[k] * terms[k];
    }
  }
  for (double& v : noise.dweight) v = std::sqrt(v);
  return r;
}

template <class S>
struct Raw {
  std::vector<S> out, dqkv;
  std::vector<AccumulatorOf<S>> lse, dweight;
  bool operator==(const Raw& o) const {
    return same_bits(out, o.out) && same_bits(dqkv, o.dqkv) && same_bits(lse, o.lse) &&
           same_bits(dweight, o.dweight);
  }
};

template <class T>
std::vector<T> to(const Values& x) {
  std::vector<T> y;
  for (double v : x) y.push_back(static_cast<T>(static_cast<AccumulatorOf<T>>(v)));
  return y;
}
template <class T>
Values from(const std::vector<T>& x) {
  Values y;
  for (T v : x) y.push_back(as_double(v));
  return y;
}

enum class Bias { kNone, kFixed, kLearned };

// Runs `times` backward passes, which add to the gradient of the weights.
template <class S>
Raw<S> run_raw(Isa isa, const Problem& p, Bias bias = Bias::kLearned, int times = 1) {
  using A = AccumulatorOf<S>;
  const Size& s = p.size;
  const std::vector<S> qkv = to<S>(p.qkv), dout = to<S>(p.dout);
  const std::vector<A> weight = to<A>(p.weight);
  const S poison = static_cast<S>(static_cast<A>(777));
  Raw<S> r{std::vector<S>(s.out(), poison), std::vector<S>(s.qkv(), poison),
           std::vector<A>(s.b * s.h * s.t(), A{777}), std::vector<A>(3 * s.h)};
  constexpr DType dtype = DTypeOf<S>::value;
  AttentionForward forward{dtype,     s.b,        s.t(),        s.h,         s.d,
                           s.scale(), qkv.data(), r.out.data(), r.lse.data()};
  AttentionBackward backward{dtype,        s.b,         s.t(),        s.h,
                             s.d,          s.scale(),   qkv.data(),   r.out.data(),
                             r.lse.data(), dout.data(), r.dqkv.data()};
  forward.grid_h = backward.grid_h = s.grid_h;
  forward.grid_w = backward.grid_w = s.grid_w;
  if (bias != Bias::kNone) forward.pos_weight = backward.pos_weight = weight.data();
  if (bias == Bias::kLearned) backward.dpos_weight = r.dweight.data();
  run_on(isa, forward);
  for (int i = 0; i < times; ++i) run_on(isa, backward);
  return r;
}

double largest(const Values& x) {
  double m = 0;
  for (double v : x) m = std::max(m, std::abs(v));
  return m;
}

void expect_near(const Values& got, const Values& want, double tolerance, const std::string& what) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - want[i]));
    ASSERT_FALSE(std::isnan(got[i])) << what;
  }
  EXPECT_LE(worst, tolerance) << what;
}

template <class S>
void expect_close(Isa isa, const Problem& p, const Result& want, const Noise& noise) {
  using A = AccumulatorOf<S>;
  const Size& s = p.size;
  std::ostringstream stream;
  stream << name_of(isa) << " " << name_of(DTypeOf<S>::value) << " " << s;
  const std::string where = stream.str();
  Raw<S> got = run_raw<S>(isa, p);
  // Four sums follow one another (scores, their sum, dp, a product). The rounding of a score is a
  // relative error of its probability; the exponential for bfloat16 is accurate to 3e-6. bfloat16
  // also rounds out and p; and in the backward pass out (through delta), ds and dqkv.
  double eps = epsilon_of<A>() * (std::sqrt(2.0 * static_cast<double>(s.t() + s.d)) +
                                  2 * noise.score + largest(want.lse));
  if constexpr (std::is_same_v<S, bfloat16>) eps += 6e-6;
  expect_near(from(got.lse), want.lse, eps * std::max(1.0, largest(want.lse)), where + " lse");
  double roundings = std::is_same_v<S, bfloat16> ? epsilon_of<S>() / 2 : 0;
  expect_near(from(got.out), want.out, (eps + 2 * roundings) * largest(want.out), where + " out");
  for (int part = 0; part < 3; ++part) {
    Values g, w;
    for (int64_t i = 0; i < s.qkv(); ++i) {
      if (i / s.row() % 3 != part) continue;
      g.push_back(as_double(got.dqkv[i]));
      w.push_back(want.dqkv[i]);
    }
    // With one token dq and dk are 0, except for the rounding of terms that cancel.
    double scale = s.t() == 1 ? 100 : largest(w);
    expect_near(g, w, (eps + 3 * roundings) * scale, where + " d" + "qkv"[part]);
  }
  for (int64_t i = 0; i < 3 * s.h; ++i) {
    expect_near({as_double(got.dweight[i])}, {want.dweight[i]},
                (eps + roundings) * noise.dweight[i] + 1e-300, where + " dweight");
  }
}

void expect_all_close(const Problem& p) {
  Noise noise;
  Result want = definition(p, noise);
  EXPECT_TRUE(p.size.t() == 1 || largest(want.dweight) > 0.1);
  for (Isa isa : isas()) {
    expect_close<float>(isa, p, want, noise);
    expect_close<bfloat16>(isa, p, want, noise);
    expect_close<double>(isa, p, want, noise);
  }
}

TEST(AttentionBias, MatchesDefinition) {
  for (const Size& s :
       {Size{1, 14, 14, 3, 48}, Size{2, 7, 5, 2, 16}, Size{1, 1, 31, 2, 8}, Size{2, 31, 1, 1, 7},
        Size{3, 1, 1, 2, 4}, Size{1, 9, 23, 1, 33}, Size{2, 2, 2, 3, 1}, Size{1, 17, 15, 1, 64}}) {
    expect_all_close(Problem(s));
  }
}

TEST(AttentionBias, MatchesDefinitionOverSeveralChunksOfKeys) {
  expect_all_close(Problem({1, 24, 23, 1, 16}));
  expect_all_close(Problem({1, 3, 347, 1, 8}));
}

// With a_d > 0 the most distant tokens get the largest weight, but the padding never gets any.
TEST(AttentionBias, SupportsBiasGrowingWithDistance) {
  expect_all_close(Problem({1, 7, 11, 2, 8}, 0.03125));
  for (Isa isa : isas()) {
    Problem steep({1, 9, 11, 2, 8}, 8);
    for (double v : from(run_raw<float>(isa, steep).dqkv)) ASSERT_TRUE(std::isfinite(v));
  }
}

template <class S>
void expect_bits_without_bias(Isa isa, Problem p) {
  std::fill(p.weight.begin(), p.weight.end(), 0);
  Raw<S> with = run_raw<S>(isa, p), without = run_raw<S>(isa, p, Bias::kNone);
  EXPECT_GT(largest(from(with.dweight)), 0.1);
  EXPECT_EQ(largest(from(without.dweight)), 0);
  without.dweight = with.dweight;
  EXPECT_TRUE(with == without) << name_of(isa) << " " << p.size;
}

TEST(AttentionBias, ZeroWeightsChangeNoBit) {
  for (Isa isa : isas()) {
    for (const Size& s : {Size{2, 14, 14, 2, 48}, Size{1, 23, 24, 1, 16}, Size{2, 5, 7, 3, 9}}) {
      expect_bits_without_bias<float>(isa, Problem(s));
      expect_bits_without_bias<bfloat16>(isa, Problem(s));
      expect_bits_without_bias<double>(isa, Problem(s));
    }
  }
}

template <class S>
void expect_equal_bits_at_any_thread_count(const Problem& p) {
  for (Isa isa : isas()) {
    Raw<S> one;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      Raw<S> many = run_raw<S>(isa, p);
      if (threads == 1) one = many;
      EXPECT_TRUE(one == many) << name_of(isa) << ", " << threads << " threads";
    }
    // Two backward passes double dweight, and fixed weights have none. All else is equal.
    Raw<S> twice = run_raw<S>(isa, p, Bias::kLearned, 2), fixed = run_raw<S>(isa, p, Bias::kFixed);
    for (auto& v : one.dweight) v *= 2;
    EXPECT_TRUE(one == twice) << name_of(isa);
    std::fill(one.dweight.begin(), one.dweight.end(), AccumulatorOf<S>{});
    EXPECT_TRUE(one == fixed) << name_of(isa);
  }
}

TEST(AttentionBias, EqualBitsAtAnyThreadCount) {
  for (const Size& s : {Size{3, 9, 8, 3, 24}, Size{1, 27, 20, 2, 8}}) {
    expect_equal_bits_at_any_thread_count<float>(Problem(s));
    expect_equal_bits_at_any_thread_count<bfloat16>(Problem(s));
  }
  expect_equal_bits_at_any_thread_count<double>(Problem({2, 7, 5, 2, 9}));
}

// A NaN in the weights or in a gradient reaches its own head only.
TEST(AttentionBias, PropagatesNan) {
  const Size s{2, 5, 7, 2, 8};
  for (Isa isa : isas()) {
    for (int k = 0; k < 3; ++k) {
      Problem p(s);
      p.weight[k] = std::numeric_limits<double>::quiet_NaN();
      Raw<float> r = run_raw<float>(isa, p);
      for (int64_t i = 0; i < s.qkv(); ++i) {
        ASSERT_EQ(std::isnan(r.dqkv[i]), i / s.d % s.h == 0) << name_of(isa) << k;
      }
      for (int64_t i = 0; i < s.out(); ++i) ASSERT_EQ(std::isnan(r.out[i]), i / s.d % s.h == 0);
      for (int64_t i = 0; i < 6; ++i) ASSERT_EQ(std::isnan(r.dweight[i]), i < 3);
    }
    Problem p(s);
    p.dout.back() = std::numeric_limits<double>::quiet_NaN();
    Raw<bfloat16> r = run_raw<bfloat16>(isa, p);
    for (int64_t i = 0; i < 6; ++i) ASSERT_EQ(std::isnan(r.dweight[i]), i >= 3) << name_of(isa);
  }
}

}  // namespace
}  // namespace dtn::test
