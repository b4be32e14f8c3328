// Attention of a few queries, and its gradients, against an element-wise float64
// softmax(q k^T scale) v, for every instruction set and type.
#include "kernels/attention/query_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dtn/core/check.h"
#include "unit/kernels/errors.h"

DTN_RUN_ON_EACH_ISA(QueryAttentionForward)
DTN_RUN_ON_EACH_ISA(QueryAttentionBackward)

namespace dtn::test {
namespace {

struct Size {
  std::int64_t b, queries, t, h, d;
  std::int64_t q() const { return b * queries * h * d; }
  std::int64_t kv() const { return 2 * b * t * h * d; }
  std::int64_t lse() const { return b * h * queries; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  // Index of (image, query, head, channel) in q, and of (image, token, part, head, channel) in kv.
  std::size_t at(std::int64_t image, std::int64_t i, std::int64_t head, std::int64_t c) const {
    return static_cast<std::size_t>(((image * queries + i) * h + head) * d + c);
  }
  std::size_t at(std::int64_t image, std::int64_t token, std::int64_t part, std::int64_t head,
                 std::int64_t c) const {
    return static_cast<std::size_t>((((image * t + token) * 2 + part) * h + head) * d + c);
  }
  std::string text() const { return cat("B", b, " Q", queries, " T", t, " H", h, " D", d); }
};

struct Result {
  Doubles out, lse, dq, dkv;
};

// The definition for one query of one head.
void naive_query(const Size& s, std::int64_t b, std::int64_t h, std::int64_t i, const Doubles& q,
                 const Doubles& kv, const Doubles& dout, Result& r) {
  const auto tokens = static_cast<std::size_t>(s.t);
  Doubles p(tokens), dp(tokens);
  double top = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0;
  for (std::int64_t j = 0; j < s.t; ++j) {
    double score = 0, gradient = 0;
    for (std::int64_t c = 0; c < s.d; ++c) {
      score += q[s.at(b, i, h, c)] * kv[s.at(b, j, 0, h, c)] * s.scale();
      gradient += dout[s.at(b, i, h, c)] * kv[s.at(b, j, 1, h, c)];
    }
    p[static_cast<std::size_t>(j)] = score;
    dp[static_cast<std::size_t>(j)] = gradient;
    top = std::max(top, score);
  }
  for (double& v : p) sum += v = std::exp(v - top);
  for (std::size_t j = 0; j < tokens; ++j) mean += (p[j] /= sum) * dp[j];
  r.lse[static_cast<std::size_t>((b * s.h + h) * s.queries + i)] = top + std::log(sum);
  for (std::int64_t j = 0; j < s.t; ++j) {
    const double weight = p[static_cast<std::size_t>(j)];
    const double ds = weight * (dp[static_cast<std::size_t>(j)] - mean) * s.scale();
    for (std::int64_t c = 0; c < s.d; ++c) {
      r.out[s.at(b, i, h, c)] += weight * kv[s.at(b, j, 1, h, c)];
      r.dq[s.at(b, i, h, c)] += ds * kv[s.at(b, j, 0, h, c)];
      r.dkv[s.at(b, j, 0, h, c)] += ds * q[s.at(b, i, h, c)];
      r.dkv[s.at(b, j, 1, h, c)] += weight * dout[s.at(b, i, h, c)];
    }
  }
}

Result naive(const Size& s, const Doubles& q, const Doubles& kv, const Doubles& dout) {
  Result r{Doubles(q.size()), Doubles(static_cast<std::size_t>(s.lse())), Doubles(q.size()),
           Doubles(kv.size())};
  for (std::int64_t b = 0; b < s.b; ++b) {
    for (std::int64_t h = 0; h < s.h; ++h) {
      for (std::int64_t i = 0; i < s.queries; ++i) naive_query(s, b, h, i, q, kv, dout, r);
    }
  }
  return r;
}

// Runs the kernels and keeps all outputs, followed by elements that must stay unchanged. The arrays
// start at element 1 of their memory, so that nothing is aligned.
template <class T>
struct Run {
  using A = AccumulatorOf<T>;
  static constexpr std::size_t kGuard = 64;
  std::vector<T> q, kv, dout, out, dq, dkv;
  std::vector<A> lse;

  Run(Isa isa, const Size& s, const Doubles& q_values, const Doubles& kv_values,
      const Doubles& dout_values)
      : q(input(q_values)),
        kv(input(kv_values)),
        dout(input(dout_values)),
        out(output<T>(s.q())),
        dq(output<T>(s.q())),
        dkv(output<T>(s.kv())),
        lse(output<A>(s.lse())) {
    constexpr DType dtype = DTypeOf<T>::value;
    run_on(isa, QueryAttentionForward{dtype, s.b, s.queries, s.t, s.h, s.d, s.scale(), q.data() + 1,
                                      kv.data() + 1, out.data() + 1, lse.data() + 1});
    run_on(isa, QueryAttentionBackward{dtype, s.b, s.queries, s.t, s.h, s.d, s.scale(),
                                       q.data() + 1, kv.data() + 1, out.data() + 1, lse.data() + 1,
                                       dout.data() + 1, dq.data() + 1, dkv.data() + 1});
  }

  static std::vector<T> input(const Doubles& values) {
    std::vector<T> v(values.size() + 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      v[i + 1] = static_cast<T>(static_cast<A>(values[i]));
    }
    return v;
  }
  template <class E>
  static std::vector<E> output(std::int64_t count) {
    return std::vector<E>(static_cast<std::size_t>(count) + 1 + kGuard,
                          static_cast<E>(static_cast<A>(777)));
  }
  // Returns the values between the guard elements, which must be unchanged.
  template <class E>
  static Doubles inside(const std::vector<E>& v) {
    Doubles all = doubles(v);
    EXPECT_EQ(all.front(), doubles(std::vector<E>{static_cast<E>(static_cast<A>(777))})[0]);
    for (std::size_t i = all.size() - kGuard; i < all.size(); ++i) EXPECT_EQ(all[i], all[0]);
    return Doubles(all.begin() + 1, all.end() - kGuard);
  }
  Result result() const { return {inside(out), inside(lse), inside(dq), inside(dkv)}; }
  bool same(const Run& o) const {
    return same_bits(out, o.out) && same_bits(dq, o.dq) && same_bits(dkv, o.dkv) &&
           same_bits(lse, o.lse);
  }
};

// A problem whose values are exact in every type.
struct Problem {
  Size size;
  Doubles q, kv, dout;

  explicit Problem(const Size& s)
      : size(s),
        q(doubles(normal_values<bfloat16>(s.q(), 1, 0, 2))),
        kv(doubles(normal_values<bfloat16>(s.kv(), 2))),
        dout(doubles(normal_values<bfloat16>(s.q(), 3))) {}
};

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class QueryAttention : public ::testing::Test {};
TYPED_TEST_SUITE(QueryAttention, Types);

// Four sums follow one another (scores, their sum, dp, a product), and an error of a score or of
// lse is a relative error of its probability. Stored results are rounded once more; dq and dk also
// contain the rounding of out, through delta.
TYPED_TEST(QueryAttention, MatchesFloat64) {
  using A = AccumulatorOf<TypeParam>;
  for (const Size& s : {Size{2, 1, 196, 3, 48}, Size{1, 1, 197, 2, 64}, Size{1, 3, 197, 2, 48},
                        Size{2, 3, 196, 1, 20}, Size{3, 1, 31, 2, 7}, Size{1, 2, 1, 1, 5},
                        Size{1, 5, 1009, 1, 16}, Size{2, 1, 16, 2, 130}}) {
    const Problem p(s);
    const Result want = naive(s, p.q, p.kv, p.dout);
    const double stored = std::is_same_v<TypeParam, bfloat16> ? 0x1p-8 : 0;
    const double error_of_sums =
        epsilon_of<A>() * (4 * std::sqrt(static_cast<double>(s.t + s.d)) + 4 * largest(want.lse));
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<TypeParam>::value), " ", s.text()));
      const Result got = Run<TypeParam>(isa, s, p.q, p.kv, p.dout).result();
      EXPECT_LE(error(got.out, want.out), error_of_sums + stored);
      EXPECT_LE(error(got.lse, want.lse), error_of_sums);
      EXPECT_LE(error(got.dkv, want.dkv), error_of_sums + 2 * stored);
      if (s.t == 1) continue;  // dq is 0, except for rounding
      EXPECT_LE(error(got.dq, want.dq), error_of_sums + 2 * stored);
    }
  }
}

TYPED_TEST(QueryAttention, SameBitsForAnyNumberOfThreads) {
  const Problem p({3, 2, 197, 3, 20});
  for (Isa isa : isas()) {
    Threads serial(1);
    const Run<TypeParam> reference(isa, p.size, p.q, p.kv, p.dout);
    for (int threads : kThreadCounts) {
      Threads parallel(threads);
      EXPECT_TRUE(Run<TypeParam>(isa, p.size, p.q, p.kv, p.dout).same(reference))
          << threads << " threads, " << name_of(isa);
    }
  }
}

// Scores of several hundred: only their differences matter.
TYPED_TEST(QueryAttention, LargeScores) {
  Problem p({1, 1, 67, 1, 16});
  for (double& v : p.q) v *= 256;
  const Result want = naive(p.size, p.q, p.kv, p.dout);
  EXPECT_GT(largest(want.lse), 500);
  for (Isa isa : isas()) {
    const Result got = Run<TypeParam>(isa, p.size, p.q, p.kv, p.dout).result();
    const double stored = std::is_same_v<TypeParam, bfloat16> ? 0x1p-8 : 0;
    EXPECT_LE(error(got.out, want.out),
              epsilon_of<AccumulatorOf<TypeParam>>() * 8 * largest(want.lse) + stored);
  }
}

// A NaN in a key or a value reaches the queries of its head and image only.
TYPED_TEST(QueryAttention, NanReachesDependentQueriesOnly) {
  for (std::int64_t part : {0, 1}) {
    Problem p({2, 2, 37, 2, 9});
    p.kv[p.size.at(1, 36, part, 0, 4)] = NAN;
    for (Isa isa : isas()) {
      const Result got = Run<TypeParam>(isa, p.size, p.q, p.kv, p.dout).result();
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 2; ++h) {
          const bool reached = b == 1 && h == 0;
          for (std::int64_t i = 0; i < 2; ++i) {
            EXPECT_EQ(std::isnan(got.out[p.size.at(b, i, h, 4)]), reached) << name_of(isa);
            EXPECT_EQ(std::isnan(got.dq[p.size.at(b, i, h, 0)]), reached) << name_of(isa);
          }
          EXPECT_EQ(std::isnan(got.dkv[p.size.at(b, 0, 0, h, 0)]), reached) << name_of(isa);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
