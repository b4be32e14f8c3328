// Sequences of different lengths in one tensor: the content of the padding changes nothing.
#include <limits>
#include <set>

#include "norm_cases.h"
#include "op_runs.h"

namespace dtn {
namespace {

using namespace dtn::test;

const NormShape kShape{24, 4, 1e-3, {1, 9}};
using Lengths = std::vector<std::int64_t>;
const Lengths kLengths{9, 5, 1, 7};

// Rows [begin, end) of sample b of x [B, T, C].
Tensor rows_of(const Tensor& x, std::int64_t b, std::int64_t begin, std::int64_t end) {
  return x.slice(b, b + 1).reshape({x.dim(1), x.dim(2)}).slice(begin, end);
}

// Returns random samples of the given lengths, with the value `pad` in the padding.
Tensor padded(const Lengths& lengths, std::int64_t tokens, std::uint32_t stream, double pad,
              DType dtype) {
  const std::int64_t longest = 12, channels = kShape.channels, batch = std::ssize(lengths);
  const Tensor all = random_tensor({batch, longest, channels}, stream, 1.5);
  Tensor x = from_doubles(Doubles(static_cast<std::size_t>(batch * tokens * channels), pad),
                          {batch, tokens, channels}, all.dtype());
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    rows_of(x, b, 0, length).copy_from(rows_of(all, b, 0, length));
  }
  return as(x, dtype);
}

struct Result {
  Tensor y, dx, gradients;
  std::vector<Tensor> buffers;
};

Result run(const NormCase& c, const Tensor& x, const Tensor& dy, const TokenGrid& grid) {
  auto built = build_norm(c.config, kShape, accumulator_of(x.dtype()));
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = c.training;
  const Variable input(x.clone(), true);
  const Variable y = built->norm->forward(ctx, input, grid);
  tape.backward(y, dy.clone());
  Result result{y.value(), input.grad(), built->store.gradients(), {}};
  for (const Buffer& b : built->store.buffers()) result.buffers.push_back(b.next);
  return result;
}

Result run_padded(const NormCase& c, const Lengths& lengths, std::int64_t tokens, double pad,
                  DType dtype) {
  const Tensor x = padded(lengths, tokens, 1, pad, dtype);
  const Tensor dy = padded(lengths, tokens, 2, 0, dtype);
  const TokenGrid grid{1, tokens, 0, Tensor::from(lengths, {std::ssize(lengths)})};
  return run(c, x, dy, grid);
}

// Cases of normalizers whose statistics span tokens and exclude the padding.
std::vector<NormCase> mixing_cases() {
  std::vector<NormCase> cases;
  std::vector<NormCase> all = norm_cases();
  std::ranges::copy(cases_of(norm_registry().at("dln").schema), std::back_inserter(all));
  for (const NormCase& c : all) {
    if (!fits(c, kShape)) continue;
    const auto built = build_norm(c.config, kShape, DType::kFloat32);
    if (built->norm->takes_lengths() && !built->norm->is_per_token()) cases.push_back(c);
  }
  return cases;
}

TEST(PaddedNorms, CoverNormalizersOfTable4) {
  std::set<std::string> types;
  for (const NormCase& c : mixing_cases()) types.insert(c.config.type);
  for (const char* type : {"bn", "in", "gn", "sn", "power", "dtn", "dln"})
    EXPECT_TRUE(types.contains(type)) << type;
}

class PaddedNorm : public testing::TestWithParam<NormCase> {};

TEST_P(PaddedNorm, DoesNotDependOnPadding) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    const Result few = run_padded(GetParam(), kLengths, 9, 0, dtype);
    const Result many = run_padded(GetParam(), kLengths, 23, kNaN, dtype);
    for (std::int64_t b = 0; b < std::ssize(kLengths); ++b) {
      const std::int64_t length = kLengths[static_cast<std::size_t>(b)];
      EXPECT_TRUE(same_bits(rows_of(few.y, b, 0, length), rows_of(many.y, b, 0, length))) << b;
      EXPECT_TRUE(same_bits(rows_of(few.dx, b, 0, length), rows_of(many.dx, b, 0, length))) << b;
      EXPECT_EQ(max_abs(doubles(rows_of(many.y, b, length, 23))), 0) << b;
      EXPECT_EQ(max_abs(doubles(rows_of(many.dx, b, length, 23))), 0) << b;
    }
    EXPECT_TRUE(same_bits(few.gradients, many.gradients));
    EXPECT_GT(max_abs(doubles(many.gradients)), 0);
    for (std::size_t i = 0; i < few.buffers.size(); ++i) {
      EXPECT_TRUE(same_bits(few.buffers[i], many.buffers[i])) << i;
    }
  }
}

// Cases with statistics of the batch are skipped.
TEST_P(PaddedNorm, SampleInBatchMatchesSampleAlone) {
  if (GetParam().training) GTEST_SKIP() << "statistics of the batch";
  const Result all = run_padded(GetParam(), kLengths, 9, 0, DType::kFloat32);
  const Tensor x = padded(kLengths, 9, 1, 0, DType::kFloat32);
  const Tensor dy = padded(kLengths, 9, 2, 0, DType::kFloat32);
  for (std::int64_t b = 0; b < std::ssize(kLengths); ++b) {
    const std::int64_t length = kLengths[static_cast<std::size_t>(b)];
    const Shape alone{1, length, kShape.channels};
    const Result one = run(GetParam(), rows_of(x, b, 0, length).reshape(alone),
                           rows_of(dy, b, 0, length).reshape(alone), {1, length});
    const Doubles want = doubles(one.y), want_dx = doubles(one.dx);
    EXPECT_LE(max_abs_difference(doubles(rows_of(all.y, b, 0, length)), want),
              1e-5 * (1 + max_abs(want)));
    EXPECT_LE(max_abs_difference(doubles(rows_of(all.dx, b, 0, length)), want_dx),
              1e-5 * (1 + max_abs(want_dx)));
  }
}

TEST_P(PaddedNorm, FullLengthsMatchUnpaddedNorm) {
  const Lengths full{9, 9, 9};
  const Result lengths = run_padded(GetParam(), full, 9, 0, DType::kFloat64);
  const Result none = run(GetParam(), padded(full, 9, 1, 0, DType::kFloat64),
                          padded(full, 9, 2, 0, DType::kFloat64), {1, 9});
  const auto expect_near = [](const Tensor& got, const Tensor& want) {
    EXPECT_LE(max_abs_difference(doubles(got), doubles(want)),
              1e-12 * (1 + max_abs(doubles(want))));
  };
  expect_near(lengths.y, none.y);
  expect_near(lengths.dx, none.dx);
  expect_near(lengths.gradients, none.gradients);
  for (std::size_t i = 0; i < none.buffers.size(); ++i) {
    expect_near(lengths.buffers[i], none.buffers[i]);
  }
}

TEST_P(PaddedNorm, MatchesReference) {
  auto built = build_norm(GetParam().config, kShape, DType::kFloat64);
  Context ctx;
  ctx.mode.training = GetParam().training;
  const Variable x(padded(kLengths, 9, 1, 0, DType::kFloat64));
  const TokenGrid grid{1, 9, 0, Tensor::from(kLengths, {std::ssize(kLengths)})};
  const Doubles got = doubles(built->norm->forward(ctx, x, grid).value());
  const Doubles want = doubles(built->norm->reference(ctx, x, grid).value());
  EXPECT_LE(max_abs_difference(got, want), 1e-7 * (1 + max_abs(want)));
}

TEST_P(PaddedNorm, RejectsInvalidLengths) {
  const auto built = build_norm(GetParam().config, kShape, DType::kFloat32);
  Context ctx;
  const Variable x(random_tensor({2, 5, kShape.channels}, 1).to(kCpu));
  for (const Lengths& wrong : {Lengths{5, 0}, Lengths{5, 6}, Lengths{5}}) {
    const TokenGrid grid{1, 5, 0, Tensor::from(wrong, {std::ssize(wrong)})};
    EXPECT_THROW(built->norm->forward(ctx, x, grid), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, PaddedNorm, testing::ValuesIn(mixing_cases()),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace dtn
