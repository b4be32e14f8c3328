// Attention within groups, and its gradients, against an element-wise float64 definition, for every
// instruction set and type.
#include "grouped_attention_problem.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(GroupedAttentionForward)
DTN_RUN_ON_EACH_ISA(GroupedAttentionBackward)

namespace dtn::test {
namespace {

using std::int64_t;

struct Results {
  Tensor out, lse, dqueries, dkeys, dbias;
  std::vector<std::pair<const char*, Tensor>> all() const {
    return {{"out", out}, {"lse", lse}, {"dqueries", dqueries}, {"dkeys", dkeys}, {"dbias", dbias}};
  }
};

constexpr double kUntouched = 777;  // must stay in gradient columns of no head

Results empty_results(const GroupedInputs& in, DType dtype) {
  const GroupedSize& s = in.size;
  auto filled = [](const Shape& shape, DType t) { return Tensor::full(shape, t, kUntouched); };
  Results r{filled(s.out_shape(), dtype), filled(s.lse_shape(), accumulator_of(dtype)),
            filled(s.queries_shape(), dtype), Tensor(), Tensor()};
  if (!s.one_array()) r.dkeys = filled(s.keys_shape(), dtype);
  if (s.bias) r.dbias = as(in.dbias_before, accumulator_of(dtype)).clone();
  return r;
}

void* raw_or_null(Tensor t) { return t.defined() ? t.raw() : nullptr; }

Results run_kernel(Isa isa, const GroupedInputs& in, DType dtype) {
  auto typed = [](const Tensor& t, DType type) { return t.defined() ? as(t, type) : t; };
  const Tensor queries = as(in.queries, dtype), keys = typed(in.keys, dtype);
  const Tensor bias = typed(in.bias, accumulator_of(dtype)), dout = as(in.dout, dtype);
  Results r = empty_results(in, dtype);
  const GroupedArrays a{raw_or_null(queries),    raw_or_null(keys),   raw_or_null(in.tokens),
                        raw_or_null(in.regions), raw_or_null(bias),   raw_or_null(dout),
                        raw_or_null(r.out),      raw_or_null(r.lse),  raw_or_null(r.dqueries),
                        raw_or_null(r.dkeys),    raw_or_null(r.dbias)};
  run_on(isa, grouped_forward(in.size, dtype, a));
  run_on(isa, grouped_backward(in.size, dtype, a));
  return r;
}

// The definition in float64.
class Naive {
 public:
  explicit Naive(const GroupedInputs& in) : in_(in), s_(in.size), r_(empty_results(in, kType)) {
    for (int part = 0; part < 3; ++part) columns_[part] = s_.columns(part);
    for (int64_t b = 0; b < s_.b; ++b) {
      for (int64_t g = 0; g < s_.g; ++g) {
        for (int64_t h = 0; h < s_.h; ++h) group(b, g, h);
      }
    }
  }
  const Results& results() const { return r_; }

 private:
  static constexpr DType kType = DType::kFloat64;

  int64_t token(int64_t g, int64_t i, int64_t per_group) const {
    const int64_t place = g * per_group + i;
    return in_.tokens.defined() ? in_.tokens.data<int64_t>()[place] : place;
  }
  // Row of a head in the queries (part 0), keys (1) or values (2).
  template <class T>
  double* row(T& queries, T& keys, int64_t b, int64_t g, int64_t h, int part, int64_t i) const {
    T& array = part == 0 || s_.one_array() ? queries : keys;
    const int64_t per_group = part == 0 ? s_.q : s_.s;
    const int64_t at = (b * s_.g * per_group + token(g, i, per_group)) * array.dim(2);
    return const_cast<double*>(array.template data<double>()) + at + columns_[part][0] +
           h * columns_[part][1];
  }
  double* input(int64_t b, int64_t g, int64_t h, int part, int64_t i) const {
    return row(in_.queries, in_.keys, b, g, h, part, i);
  }
  double* gradient(int64_t b, int64_t g, int64_t h, int part, int64_t i) {
    return row(r_.dqueries, r_.dkeys, b, g, h, part, i);
  }
  double* output(const Tensor& out, int64_t b, int64_t g, int64_t h, int64_t i) const {
    Tensor t = out;
    return t.data<double>() + ((b * s_.g * s_.q + token(g, i, s_.q)) * s_.h + h) * s_.dv;
  }
  static double product(const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t c = 0; c < n; ++c) sum += a[c] * b[c];
    return sum;
  }
  double added(int64_t g, int64_t h, int64_t i, int64_t j) const {
    double sum = s_.bias ? in_.bias.data<double>()[(h * s_.q + i) * s_.s + j] : 0;
    if (!in_.regions.defined()) return sum;
    const float* regions = in_.regions.data<float>() + g * s_.q;
    return regions[i] == regions[j] ? sum : sum - 100;
  }

  void group(int64_t b, int64_t g, int64_t h) {
    for (int part = 0; part < 3; ++part) {
      for (int64_t i = 0; i < (part == 0 ? s_.q : s_.s); ++i) {
        std::fill_n(gradient(b, g, h, part, i), part == 2 ? s_.dv : s_.dk, 0.0);
      }
    }
    for (int64_t i = 0; i < s_.q; ++i) query(b, g, h, i);
  }

  void query(int64_t b, int64_t g, int64_t h, int64_t i) {
    const double* q = input(b, g, h, 0, i);
    const double* dout = output(in_.dout, b, g, h, i);
    Doubles p(static_cast<std::size_t>(s_.s));
    double top = -INFINITY, sum = 0, mean = 0;
    for (int64_t j = 0; j < s_.s; ++j) {
      p[j] = product(q, input(b, g, h, 1, j), s_.dk) * s_.scale() + added(g, h, i, j);
      top = std::max(top, p[j]);
    }
    for (double& v : p) sum += v = std::exp(v - top);
    r_.lse.data<double>()[((b * s_.g + g) * s_.h + h) * s_.q + i] = top + std::log(sum);
    double* out = output(r_.out, b, g, h, i);
    std::fill_n(out, s_.dv, 0.0);
    for (int64_t j = 0; j < s_.s; ++j) {
      p[j] /= sum;
      const double* v = input(b, g, h, 2, j);
      mean += p[j] * product(dout, v, s_.dv);
      for (int64_t c = 0; c < s_.dv; ++c) {
        out[c] += p[j] * v[c];
        gradient(b, g, h, 2, j)[c] += p[j] * dout[c];
      }
    }
    for (int64_t j = 0; j < s_.s; ++j) {
      const double ds = p[j] * (product(dout, input(b, g, h, 2, j), s_.dv) - mean);
      if (s_.bias) r_.dbias.data<double>()[(h * s_.q + i) * s_.s + j] += ds;
      for (int64_t c = 0; c < s_.dk; ++c) {
        gradient(b, g, h, 0, i)[c] += ds * s_.scale() * input(b, g, h, 1, j)[c];
        gradient(b, g, h, 1, j)[c] += ds * s_.scale() * q[c];
      }
    }
  }

  const GroupedInputs& in_;
  const GroupedSize& s_;
  std::array<std::array<int64_t, 2>, 3> columns_;
  Results r_;
};

// Largest error of `got`, relative to the largest expected value or `largest`, whichever is larger.
// Columns of no head must be unchanged.
double relative_error(const Tensor& got, const Tensor& want, double largest) {
  const Doubles g = doubles(got), w = doubles(want);
  double error = 0;
  const double untouched = element(Tensor::full({1}, got.dtype(), kUntouched), 0);
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (w[i] == kUntouched) {
      EXPECT_EQ(g[i], untouched) << "element " << i << " of " << to_string(got.shape());
      continue;
    }
    if (std::isnan(g[i])) return INFINITY;
    error = std::max(error, std::abs(g[i] - w[i]));
    largest = std::max(largest, std::abs(w[i]));
  }
  return error / largest;
}

// Four sums follow one another (scores, their sum, dp, a product). The rounding of a score is a
// relative error of its probability.
double tolerance(const GroupedSize& s, DType dtype, const Tensor& lse, int64_t terms) {
  const double sums = 2 * unit_roundoff(accumulator_of(dtype));
  const double each = dtype == DType::kBFloat16 ? unit_roundoff(dtype) : sums;
  return each * std::sqrt(2.0 * static_cast<double>(terms + s.dk + s.dv)) +
         sums * std::max(100.0 * (s.regions > 0), max_abs(doubles(lse)));
}

void expect_matches_definition(const GroupedSize& s) {
  const GroupedInputs in(s);
  const Naive naive(in);
  // With one key dq and dk are 0, except for the rounding of terms that cancel.
  const double largest_input = max_abs(doubles(in.queries));
  const double floor = s.s > 1 ? 1e-30 : max_abs(doubles(in.dout)) * largest_input * largest_input;
  for (Isa isa : isas()) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      SCOPED_TRACE(cat(name_of(isa), " ", name_of(dtype), " ", to_string(s)));
      const Results got = run_kernel(isa, in, dtype);
      const auto want = naive.results().all();
      for (std::size_t i = 0; i < want.size(); ++i) {
        const auto& [name, wanted] = want[i];
        if (!wanted.defined()) continue;
        const bool is_lse = name == std::string("lse");
        DType stored = is_lse ? accumulator_of(dtype) : dtype;
        double bound = tolerance(s, stored, want[1].second, std::max(s.q, s.s));
        if (is_lse && dtype == DType::kBFloat16) bound += 4e-6;  // its 2^x is accurate to 3e-6
        EXPECT_LE(relative_error(got.all()[i].second, wanted, floor), bound) << name;
      }
    }
  }
}

GroupedSize size(int64_t b, int64_t h, int64_t g, int64_t q, int64_t s, int64_t dk, int64_t dv) {
  return {b, h, g, q, s, dk, dv, GroupedSize::kTwoArrays, false, 0};
}
GroupedSize windows(int64_t b, int64_t h, int64_t g, int64_t n, int64_t d, int regions) {
  return {b, h, g, n, n, d, d, GroupedSize::kPartByPart, true, regions};
}

TEST(GroupedAttention, WindowsWithBias) {
  expect_matches_definition(windows(2, 3, 4, 49, 32, 0));
  expect_matches_definition(windows(1, 2, 3, 49, 32, 4));
  expect_matches_definition(windows(3, 1, 5, 4, 7, 2));
  expect_matches_definition(windows(1, 5, 2, 64, 16, 3));
}

TEST(GroupedAttention, WindowsWithoutBias) {
  GroupedSize s = windows(2, 2, 3, 49, 32, 0);
  s.bias = false;
  expect_matches_definition(s);
  s.regions = 2;
  expect_matches_definition(s);
}

TEST(GroupedAttention, FewKeys) {
  expect_matches_definition(size(1, 1, 1, 3136, 49, 64, 64));
  expect_matches_definition(size(2, 2, 1, 784, 49, 64, 64));
  expect_matches_definition(size(1, 3, 1, 50, 50, 64, 64));
  expect_matches_definition(size(1, 2, 1, 5, 1, 16, 8));
}

TEST(GroupedAttention, BiasOfAllTokens) {
  for (const auto& [q, s] : {std::pair{196, 196}, {49, 49}, {16, 16}}) {
    expect_matches_definition({2, 3, 1, q, s, 16, 32, GroupedSize::kHeadByHead, true, 0});
  }
  expect_matches_definition({2, 2, 1, 49, 196, 16, 64, GroupedSize::kTwoArrays, true, 0});
  expect_matches_definition({1, 2, 1, 16, 49, 16, 64, GroupedSize::kTwoArrays, true, 0});
}

TEST(GroupedAttention, ManyKeys) {
  expect_matches_definition({1, 1, 1, 700, 700, 64, 64, GroupedSize::kPartByPart, false, 0});
  expect_matches_definition({1, 2, 1, 30, 1100, 24, 40, GroupedSize::kTwoArrays, true, 0});
  expect_matches_definition({1, 1, 2, 600, 600, 8, 8, GroupedSize::kPartByPart, true, 2});
}

TEST(GroupedAttention, OddSizes) {
  for (int64_t q : {1, 2, 17, 73}) {
    for (int64_t s : {1, 3, 16, 65}) {
      expect_matches_definition(
          {2, 2, 1, q, s, q % 5 * 9 + 1, s % 7 * 13 + 1, GroupedSize::kTwoArrays, q % 2 == 0, 0});
    }
  }
  expect_matches_definition(size(1, 2, 1, 33, 40, 96, 130));
}

// Without dbias only dq and dkeys are written, with the same bits.
TEST(GroupedAttention, BiasGradientIsOptional) {
  const GroupedInputs in(windows(2, 3, 4, 49, 32, 3));
  const DType dtype = DType::kFloat32;
  for (Isa isa : isas()) {
    const Results with = run_kernel(isa, in, dtype);
    Results without = empty_results(in, dtype);
    const Tensor queries = as(in.queries, dtype), bias = as(in.bias, dtype),
                 dout = as(in.dout, dtype);
    const GroupedArrays a{raw_or_null(queries),
                          nullptr,
                          raw_or_null(in.tokens),
                          raw_or_null(in.regions),
                          raw_or_null(bias),
                          raw_or_null(dout),
                          raw_or_null(with.out),
                          raw_or_null(with.lse),
                          without.dqueries.raw(),
                          nullptr,
                          nullptr};
    run_on(isa, grouped_backward(in.size, dtype, a));
    EXPECT_TRUE(same_bits(with.dqueries, without.dqueries)) << name_of(isa);
  }
}

TEST(GroupedAttention, EqualBitsAtAnyThreadCount) {
  for (const GroupedSize& s :
       {windows(5, 3, 16, 49, 32, 3), size(2, 1, 1, 1300, 49, 64, 64),
        GroupedSize{1, 2, 1, 530, 530, 16, 32, GroupedSize::kHeadByHead, true, 0}}) {
    const GroupedInputs in(s);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      for (Isa isa : isas()) {
        std::vector<std::pair<const char*, Tensor>> one;
        for (int threads : kThreadCounts) {
          Threads scope(threads);
          const auto results = run_kernel(isa, in, dtype).all();
          if (threads == 1) one = results;
          for (std::size_t i = 0; i < results.size(); ++i) {
            const auto& [name, tensor] = results[i];
            if (!tensor.defined()) continue;
            EXPECT_TRUE(same_bits(tensor, one[i].second))
                << name << " " << threads << " threads, " << name_of(isa) << " " << name_of(dtype)
                << " " << to_string(s);
          }
        }
      }
    }
  }
}

// A NaN in the key of one token reaches its group and head only.
TEST(GroupedAttention, NanStaysInItsGroupAndHead) {
  GroupedInputs in(windows(2, 2, 3, 16, 8, 2));
  const GroupedSize& s = in.size;
  const int64_t group = 1, place = group * s.q + 5;
  const int64_t token = in.tokens.data<int64_t>()[place];
  const auto [first, stride] = s.columns(1);
  in.queries.data<double>()[token * s.query_columns() + first] = NAN;  // sample 0, head 0
  for (Isa isa : isas()) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      const Results r = run_kernel(isa, in, dtype);
      const Doubles out = doubles(r.out), dbias = doubles(r.dbias);
      for (int64_t i = 0; i < r.out.numel(); ++i) {
        const int64_t row = i / (s.h * s.dv), sample = row / (s.g * s.q);
        bool in_group = false;
        for (int64_t k = 0; k < s.q; ++k) {
          in_group |= in.tokens.data<int64_t>()[group * s.q + k] == row % (s.g * s.q);
        }
        const bool reached = sample == 0 && in_group && i / s.dv % s.h == 0;
        ASSERT_EQ(std::isnan(out[static_cast<std::size_t>(i)]), reached)
            << name_of(isa) << " " << name_of(dtype) << " " << i;
      }
      for (std::size_t i = 0; i < dbias.size(); ++i) {
        const bool of_head_0 = i < dbias.size() / 2;
        ASSERT_EQ(std::isnan(dbias[i]), of_head_0) << name_of(isa) << " " << i;
      }
    }
  }
}

TEST(GroupedAttention, CountsMultiplyAddsOfBothProducts) {
  const GroupedArrays none{};
  const GroupedSize s = windows(2, 3, 64, 49, 32, 0);
  const double scores = 2.0 * 3 * 64 * 49 * 49;
  EXPECT_EQ(grouped_forward(s, DType::kFloat32, none).multiply_adds(), scores * 64);
  EXPECT_EQ(grouped_backward(s, DType::kFloat32, none).multiply_adds(), scores * 5 * 32);
  const GroupedSize levit = size(1, 8, 1, 49, 196, 16, 64);
  EXPECT_EQ(grouped_forward(levit, DType::kFloat32, none).multiply_adds(), 8.0 * 49 * 196 * 80);
}

}  // namespace
}  // namespace dtn::test
