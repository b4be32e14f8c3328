// Attention over padded sequences beyond its values: pads have no effect, bits do not depend on
// threads, and invalid arguments are errors.
#include "dtn/ops/sparse_attention.h"

#include "core/meta_device.h"
#include "sparse_attention_cases.h"

namespace dtn {
namespace {

using ops::BlockPattern;
using ops::SparseVariant;
using std::int64_t;
using test::random_tensor;

// --- pads and threads ----------------------------------------------------------------------------

struct Ran {
  Tensor out;
  std::vector<Tensor> gradients;
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors = gradients;
    tensors.insert(tensors.begin(), out);
    return tensors;
  }
};

// A kind of attention with inputs [B, T, *] and the lengths of the samples.
struct Kind {
  std::string name;
  std::vector<Shape> inputs;  // with B = 1
  std::function<Variable(Context&, const std::vector<Variable>&, const Tensor& lengths)> run;
};

constexpr int64_t kTokens = 150, kHeads = 2, kDim = 24, kWidth = kHeads * kDim;

std::vector<Kind> kinds() {
  const auto pattern = BlockPattern::make(
      {.tokens = kTokens, .heads = kHeads, .block = 16, .random = 2, .layer = 2});
  const auto lra_pattern = BlockPattern::make({.tokens = kTokens,
                                               .heads = kHeads,
                                               .block = 16,
                                               .random = 2,
                                               .variant = SparseVariant::kLra});
  const auto block = [](auto p) {
    return [p](Context& c, const std::vector<Variable>& v, const Tensor& lengths) {
      return ops::block_attention(c, v[0], *p, lengths);
    };
  };
  const auto hashed = [](int64_t rounds) {
    const Tensor rotations = test::as(random_tensor({kDim, rounds, 3}, 8), DType::kFloat32);
    return [rotations](Context& c, const std::vector<Variable>& v, const Tensor& lengths) {
      return ops::hashed_attention(c, v[0], v[1], rotations, {.heads = kHeads}, lengths);
    };
  };
  const Shape qkv = {1, kTokens, 3 * kWidth}, one = {1, kTokens, kWidth};
  const auto dense = [](double dropout) {
    return [dropout](Context& c, const std::vector<Variable>& v, const Tensor& lengths) {
      return ops::attention(c, v[0], kHeads, {.lengths = lengths, .dropout = dropout, .stream = 3});
    };
  };
  return {{"dense", {qkv}, dense(0)},        {"dense with dropout", {qkv}, dense(0.2)},
          {"blocks", {qkv}, block(pattern)}, {"blocks, lra", {qkv}, block(lra_pattern)},
          {"hashed", {one, one}, hashed(1)}, {"hashed, two rounds", {one, one}, hashed(2)}};
}

const std::vector<int64_t> kLengths = {150, 1, 77, 16, 0};

// Random rows [B, T, *]; pads hold `pad`.
Tensor padded(Shape shape, const std::vector<int64_t>& lengths, std::uint32_t stream, double pad) {
  const auto batch = static_cast<int64_t>(lengths.size());
  Tensor x = random_tensor({batch, shape[1], shape[2]}, stream);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t first = (b * shape[1] + lengths[static_cast<std::size_t>(b)]) * shape[2];
    std::fill(x.data<double>() + first, x.data<double>() + (b + 1) * shape[1] * shape[2], pad);
  }
  return x;
}

Ran run(const Kind& kind, DType dtype, const std::vector<Tensor>& inputs, const Tensor& dout,
        const Tensor& lengths, std::uint64_t first_sample = 0) {
  std::vector<Variable> leaves;
  for (const Tensor& x : inputs) leaves.emplace_back(test::as(x, dtype).clone(), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = true;
  ctx.rng.first_sample = first_sample;
  const Variable y = kind.run(ctx, leaves, lengths);
  tape.backward(y, test::as(dout, dtype));
  Ran ran{y.value(), {}};
  for (const Variable& leaf : leaves) ran.gradients.push_back(leaf.grad());
  return ran;
}

Ran run_padded(const Kind& kind, DType dtype, const std::vector<int64_t>& lengths, double pad) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : kind.inputs) {
    inputs.push_back(padded(shape, lengths, static_cast<std::uint32_t>(inputs.size()) + 1, pad));
  }
  const Tensor dout = padded({1, kTokens, kWidth}, lengths, 9, pad);
  return run(kind, dtype, inputs, dout, test::lengths_of(lengths));
}

void expect_same(const Ran& a, const Ran& b, const std::string& what) {
  for (std::size_t i = 0; i < a.all().size(); ++i) {
    EXPECT_TRUE(test::same_bits(a.all()[i], b.all()[i])) << what << ", tensor " << i;
  }
}

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};

TEST(PaddedAttention, PaddingValuesHaveNoEffect) {
  for (const Kind& kind : kinds()) {
    for (DType dtype : kTypes) {
      const Ran clean = run_padded(kind, dtype, kLengths, 0);
      EXPECT_GT(test::max_abs(test::doubles(clean.out)), 0) << kind.name;
      for (double pad : {static_cast<double>(NAN), static_cast<double>(INFINITY), 1e30}) {
        expect_same(clean, run_padded(kind, dtype, kLengths, pad), kind.name);
      }
    }
  }
}

TEST(PaddedAttention, PaddingIsZero) {
  for (const Kind& kind : kinds()) {
    for (const Tensor& x : run_padded(kind, DType::kFloat32, kLengths, NAN).all()) {
      const int64_t width = x.dim(2);
      for (int64_t i = 0; i < x.numel(); ++i) {
        const bool is_pad =
            i / width % kTokens >= kLengths[static_cast<std::size_t>(i / width / kTokens)];
        const double value = test::element(x, i);
        ASSERT_TRUE(is_pad ? value == 0 && !std::signbit(value) : std::isfinite(value))
            << kind.name << " element " << i;
      }
    }
  }
}

TEST(PaddedAttention, EqualBitsAtAnyThreadCount) {
  for (const Kind& kind : kinds()) {
    for (DType dtype : kTypes) {
      test::Threads one(1);
      const Ran alone = run_padded(kind, dtype, kLengths, 0);
      for (int threads : test::kThreadCounts) {
        test::Threads many(threads);
        expect_same(alone, run_padded(kind, dtype, kLengths, 0), kind.name);
      }
    }
  }
}

// Null lengths equal full lengths.
TEST(PaddedAttention, FullLengths) {
  for (const Kind& kind : kinds()) {
    const std::vector<int64_t> full = {kTokens, kTokens};
    const Ran with = run_padded(kind, DType::kFloat32, full, 0);
    std::vector<Tensor> inputs;
    for (const Shape& shape : kind.inputs) {
      inputs.push_back(padded(shape, full, static_cast<std::uint32_t>(inputs.size()) + 1, 0));
    }
    const Tensor dout = padded({1, kTokens, kWidth}, full, 9, 0);
    expect_same(with, run(kind, DType::kFloat32, inputs, dout, Tensor()), kind.name);
  }
}

Tensor first_tokens(const Tensor& x, int64_t sample, int64_t tokens) {
  const std::size_t bytes = static_cast<std::size_t>(x.dim(2)) * size_of(x.dtype());
  Tensor y = Tensor::empty({1, tokens, x.dim(2)}, x.dtype());
  std::memcpy(y.raw(), static_cast<const char*>(x.raw()) + sample * x.dim(1) * bytes,
              static_cast<std::size_t>(tokens) * bytes);
  return y;
}

// A sample has the same bits alone, without pads, as in a batch with many pads.
TEST(PaddedAttention, DenseDoesNotDependOnPadding) {
  const std::vector<int64_t> lengths = {600, 37, 513, 150};
  const int64_t tokens = 640;
  const Tensor qkv = random_tensor({4, tokens, 3 * kWidth}, 1);
  const Tensor dout = random_tensor({4, tokens, kWidth}, 2);
  for (int kind : {0, 1}) {  // without and with dropout
    const Kind dense = kinds()[static_cast<std::size_t>(kind)];
    for (DType dtype : kTypes) {
      const Ran together = run(dense, dtype, {qkv}, dout, test::lengths_of(lengths));
      for (int64_t b = 0; b < 4; ++b) {
        const int64_t length = lengths[static_cast<std::size_t>(b)];
        const Ran alone =
            run(dense, dtype, {first_tokens(qkv, b, length)}, first_tokens(dout, b, length),
                Tensor(), static_cast<std::uint64_t>(b));
        EXPECT_TRUE(test::same_bits(alone.out, first_tokens(together.out, b, length)))
            << dense.name;
        EXPECT_TRUE(
            test::same_bits(alone.gradients[0], first_tokens(together.gradients[0], b, length)))
            << dense.name;
      }
    }
  }
}

// The result of a sample does not depend on the other samples of the batch.
TEST(PaddedAttention, SparseKindsDoNotDependOnOtherSamples) {
  for (const Kind& kind : kinds()) {
    const Ran together = run_padded(kind, DType::kFloat32, kLengths, 0);
    std::vector<Tensor> inputs;
    for (const Shape& shape : kind.inputs) {
      const auto stream = static_cast<std::uint32_t>(inputs.size()) + 1;
      inputs.push_back(first_tokens(padded(shape, kLengths, stream, 0), 2, kTokens));
    }
    const Tensor dout = first_tokens(padded({1, kTokens, kWidth}, kLengths, 9, 0), 2, kTokens);
    const Ran alone = run(kind, DType::kFloat32, inputs, dout, test::lengths_of({kLengths[2]}), 2);
    for (std::size_t i = 0; i < alone.all().size(); ++i) {
      EXPECT_TRUE(test::same_bits(alone.all()[i], first_tokens(together.all()[i], 2, kTokens)))
          << kind.name << ", tensor " << i;
    }
  }
}

// With equal scores and values of 1, outputs are the scaled shares of kept weights, with mean 1.
TEST(PaddedAttention, DropsWithConfiguredRate) {
  const int64_t tokens = 300;
  Tensor qkv = Tensor::zeros({2, tokens, 3 * kWidth}, DType::kFloat32);
  for (int64_t i = 0; i < qkv.numel(); ++i) {
    if (i % (3 * kWidth) >= 2 * kWidth) qkv.data<float>()[i] = 1;
  }
  for (double p : {0.1, 0.5}) {
    Context ctx;
    ctx.mode.training = true;
    const Variable y = ops::attention(ctx, Variable(qkv), kHeads, {.dropout = p, .stream = 11});
    double sum = 0, squares = 0;
    const double rows = 2.0 * static_cast<double>(tokens * kHeads);
    for (int64_t i = 0; i < y.value().numel(); i += kDim) {  // all columns of a head are equal
      const double x = test::element(y.value(), i);
      sum += x, squares += (x - 1) * (x - 1);
    }
    const double variance = p / (1 - p) / static_cast<double>(tokens);
    EXPECT_NEAR(sum / rows, 1, 4 * std::sqrt(variance / rows)) << p;
    EXPECT_NEAR(squares / rows / variance, 1, 4 * std::sqrt(2 / rows)) << p;
  }
}

// Masks depend on the sample's place in the global batch.
TEST(PaddedAttention, DropoutMatchesGlobalBatch) {
  const Tensor qkv = random_tensor({2, 70, 3 * kWidth}, 1);
  const auto out = [&](const Tensor& x, std::uint64_t first) {
    Context ctx;
    ctx.mode.training = true;
    ctx.rng.first_sample = first;
    return ops::attention(ctx, Variable(test::as(x, DType::kFloat32)), kHeads,
                          {.dropout = 0.5, .stream = 1})
        .value();
  };
  const Tensor both = out(qkv, 4);
  EXPECT_TRUE(test::same_bits(out(first_tokens(qkv, 1, 70), 5), first_tokens(both, 1, 70)));
  EXPECT_FALSE(test::same_bits(out(first_tokens(qkv, 1, 70), 4), first_tokens(both, 1, 70)));
}

// --- hashes --------------------------------------------------------------------------------------

// A single token attends to itself only, so its query has no gradient.
TEST(HashedAttention, SingleTokenAttendsToItself) {
  const Kind hashed = kinds()[4];
  const Tensor qk = random_tensor({1, kTokens, kWidth}, 1), v = random_tensor(qk.shape(), 2);
  const Tensor dout = random_tensor(qk.shape(), 3);
  const Ran r = run(hashed, DType::kFloat64, {qk, v}, dout, test::lengths_of({1}));
  EXPECT_TRUE(test::same_bits(first_tokens(r.out, 0, 1), first_tokens(v, 0, 1)));
  EXPECT_TRUE(test::same_bits(first_tokens(r.gradients[1], 0, 1), first_tokens(dout, 0, 1)));
  EXPECT_EQ(test::max_abs(test::doubles(r.gradients[0])), 0);
}

// The definition, round by round: softmax within a round, then softmax over the log-sum-exps.
test::Doubles naive_hashed(const test::HashedCase& c, const Tensor& qk, const Tensor& v,
                           const Tensor& rotations) {
  const int64_t T = c.tokens, H = c.heads, D = c.dim,
                N = (T + c.buckets - 1) / c.buckets * c.buckets;
  const int64_t m = N / c.buckets, half = c.buckets / 2;
  test::Doubles out(static_cast<std::size_t>(T * H * D));
  const auto row = [&](const Tensor& x, int64_t t, int64_t h) {
    return x.data<double>() + (t * H + h) * D;
  };
  for (int64_t h = 0; h < H; ++h) {
    std::vector<std::vector<int64_t>> order(static_cast<std::size_t>(c.hashes));
    for (int64_t r = 0; r < c.hashes; ++r) {
      std::vector<std::pair<int64_t, int64_t>> sorted;
      for (int64_t t = 0; t < T; ++t) {
        int64_t best = 0;
        double top = -INFINITY;
        for (int64_t j = 0; j < c.buckets; ++j) {
          double z = 0;
          for (int64_t d = 0; d < D; ++d) {
            z += row(qk, t, h)[d] * rotations.data<float>()[(d * c.hashes + r) * half + j % half];
          }
          if ((j < half ? z : -z) > top) top = j < half ? z : -z, best = j;
        }
        sorted.emplace_back(best, t);
      }
      std::sort(sorted.begin(), sorted.end());
      for (const auto& [bucket, t] : sorted) order[static_cast<std::size_t>(r)].push_back(t);
    }
    for (int64_t t = 0; t < T; ++t) {
      std::vector<double> lse;
      std::vector<test::Doubles> rounds;
      for (int64_t r = 0; r < c.hashes; ++r) {
        const auto& own = order[static_cast<std::size_t>(r)];
        const int64_t chunk = (std::find(own.begin(), own.end(), t) - own.begin()) / m;
        const int64_t before_round = chunk > 0 ? r : (r + c.hashes - 1) % c.hashes;
        const int64_t before_chunk = (chunk + c.buckets - 1) % c.buckets;
        std::vector<int64_t> keys;
        const auto add = [&](const std::vector<int64_t>& from, int64_t k) {
          for (int64_t i = k * m; i < std::min((k + 1) * m, T); ++i) {
            keys.push_back(from[static_cast<std::size_t>(i)]);
          }
        };
        add(order[static_cast<std::size_t>(before_round)], before_chunk);
        add(own, chunk);
        double total = 0;
        test::Doubles mixed(static_cast<std::size_t>(D));
        for (int64_t key : keys) {
          double dot = 0, squares = 0;
          for (int64_t d = 0; d < D; ++d) {
            dot += row(qk, t, h)[d] * row(qk, key, h)[d];
            squares += row(qk, key, h)[d] * row(qk, key, h)[d];
          }
          const double w = std::exp(key == t ? -1e5 : dot / std::sqrt(squares));
          total += w;
          for (int64_t d = 0; d < D; ++d)
            mixed[static_cast<std::size_t>(d)] += w * row(v, key, h)[d];
        }
        for (double& x : mixed) x /= total;
        lse.push_back(std::log(total));
        rounds.push_back(mixed);
      }
      double sum = 0;
      for (double l : lse) sum += std::exp(l);
      for (std::size_t r = 0; r < rounds.size(); ++r) {
        for (int64_t d = 0; d < D; ++d) {
          out[static_cast<std::size_t>((t * H + h) * D + d)] +=
              std::exp(lse[r]) / sum * rounds[r][static_cast<std::size_t>(d)];
        }
      }
    }
  }
  return out;
}

TEST(HashedAttention, MatchesDefinitionRoundByRound) {
  for (int64_t rounds : {1, 2, 3}) {
    const test::HashedCase c{cat(rounds, " rounds"), 1, 45, 2, 6, rounds, 6};
    const Tensor qk = c.qk(1e-6), v = c.v();
    Context ctx;
    const Variable y = c.run(ops::hashed_attention, ctx, {Variable(qk), Variable(v)});
    const test::Doubles want = naive_hashed(c, qk, v, c.rotations());
    EXPECT_LT(test::max_abs_difference(test::doubles(y.value()), want), 1e-13);
    EXPECT_GT(test::max_abs(want), 0.1);
  }
}

// --- errors and multiply-adds
// ---------------------------------------------------------------------

TEST(PaddedAttention, RejectsInvalidLengths) {
  const Tensor x = random_tensor({2, kTokens, 3 * kWidth}, 1);
  Context ctx;
  const auto refused = [&](const Tensor& lengths) {
    EXPECT_THROW(ops::attention(ctx, Variable(x), kHeads, {.lengths = lengths}), Error);
  };
  refused(test::lengths_of({1}));
  refused(test::lengths_of({1, kTokens + 1}));
  refused(test::lengths_of({-1, 4}));
  refused(Tensor::full({2}, DType::kFloat32, 3));
  EXPECT_NO_THROW(ops::attention(ctx, Variable(x), kHeads, {.lengths = test::lengths_of({1, 5})}));
}

TEST(SparseAttention, RejectsInvalidArguments) {
  Context ctx;
  const auto pattern = BlockPattern::make({.tokens = 150, .heads = 2, .block = 16});
  EXPECT_THROW(ops::block_attention(ctx, Variable(random_tensor({1, 149, 12}, 1)), *pattern),
               Error);
  EXPECT_THROW(ops::block_attention(ctx, Variable(random_tensor({1, 150, 13}, 1)), *pattern),
               Error);
  const Variable x(random_tensor({1, 20, 8}, 1));
  const Tensor rotations = test::as(random_tensor({4, 1, 2}, 2), DType::kFloat32);
  EXPECT_NO_THROW(ops::hashed_attention(ctx, x, x, rotations, {.heads = 2}));
  EXPECT_THROW(ops::hashed_attention(ctx, x, x, rotations, {.heads = 4}), Error);
  EXPECT_THROW(ops::hashed_attention(ctx, x, x, random_tensor({4, 1, 2}, 2), {.heads = 2}), Error);
  EXPECT_THROW(ops::hashed_attention(ctx, x, Variable(random_tensor({1, 20, 4}, 1)), rotations,
                                     {.heads = 2}),
               Error);
}

double counted(const Kind& kind) {
  std::vector<Variable> leaves;
  for (const Shape& shape : kind.inputs) {
    leaves.emplace_back(Tensor::empty(shape, DType::kFloat32, kMeta));
  }
  meta_queue().take_work();
  Context ctx;
  kind.run(ctx, leaves, Tensor());
  return meta_queue().take_work().multiply_adds;
}

TEST(SparseAttention, CountsMultiplyAddsOnMetaDevice) {
  // 10 blocks of 16; the last has 6 tokens and all rows see it. Rows of blocks 0 and 9 see all 150
  // tokens, rows of blocks 1 and 8 see five full blocks, and rows of the other six see six.
  const double scores = counted(kinds()[2]) / (2 * kDim);
  EXPECT_EQ(scores, 2 * (22 * 150 + 16 * (6 * (6 * 16 + 6) + 2 * (5 * 16 + 6))));
  const Kind hashed = kinds()[4];  // chunks of 25
  EXPECT_EQ(counted(hashed), kHeads * kDim * (150.0 * 3 + 2 * 150 * 50));
}

}  // namespace
}  // namespace dtn
