// Normalizers over the batch with `sync`: ranks with unequal shares of a batch give the results of
// one rank with the whole batch.
#include "conditional_cases.h"
#include "norm_cases.h"
#include "op_runs.h"
#include "thread_ranks.h"

namespace dtn {
namespace {

using test::Doubles;

constexpr std::int64_t kBatch = 6, kChannels = 30, kHeads = 5;
const TokenGrid kGrid{7, 5};

// The samples [first, end) of the batch.
struct Share {
  std::int64_t first = 0, end = kBatch;
};
const std::vector<std::vector<Share>>& divisions() {
  static const std::vector<std::vector<Share>> all = {{{0, 1}, {1, 6}}, {{0, 3}, {3, 4}, {4, 6}}};
  return all;
}

// A layer with its parameters, and its application to a share.
struct Layer {
  std::shared_ptr<void> owner;
  ParameterStore* store;
  std::function<Variable(Context&, const Variable& x, const Share&)> forward;
};

struct SyncCase {
  std::string name;
  std::function<Layer(DType, bool sync)> make;
  bool follows_batch = true;  // the output depends on the batch, not only on gathered statistics
  int roundings = 1;          // bfloat16 roundings between the inputs and a result
  bool padded = false;        // sequences of different lengths
};

// Grid of sequences with different lengths. The ranks have very different numbers of tokens.
TokenGrid padded_grid(const Share& share) {
  const std::int64_t tokens = kGrid.tokens();
  const std::vector<std::int64_t> lengths = {tokens, 3, 1, 20, tokens, 12};
  const Tensor all = Tensor::from(lengths, {kBatch});
  return {1, tokens, 0, all.slice(share.first, share.end)};
}

Layer layer_of(NormConfig config, DType dtype, bool sync, bool padded) {
  for (NormOption& o : config.options) {
    if (o.key == "sync") o.value = sync;
  }
  std::shared_ptr<test::BuiltNorm> built =
      test::build_norm(config, {kChannels, kHeads, 1e-5, kGrid}, dtype);
  return {built, &built->store,
          [padded, norm = built->norm.get()](Context& ctx, const Variable& x, const Share& share) {
            return norm->forward(ctx, x, padded ? padded_grid(share) : kGrid);
          }};
}

template <class Norm>
Layer layer_of(test::ConditionKind kind, typename Norm::Options options, DType dtype) {
  test::ConditionalCase c{"", kind,
                          [&](ParameterStore& s, std::int64_t) {
                            return std::make_unique<Norm>(Scope(s, "norm"), options);
                          },
                          true};
  std::shared_ptr<test::BuiltConditional> built = test::build_conditional(c, kChannels, dtype);
  const Tensor values = test::condition_values(c, kBatch, kGrid.tokens(), kChannels);
  return {built, &built->store,
          [c, values, norm = built->norm.get()](Context& ctx, const Variable& x, const Share& s) {
            Variable v(test::as(values, x.dtype()).slice(s.first, s.end));
            return norm->forward(ctx, x, kGrid, test::make_condition(c, x.dim(0), v));
          }};
}

// Every normalizer of the registry that has the option `sync`, with its other options.
std::vector<SyncCase> sync_cases() {
  std::vector<SyncCase> all;
  for (const test::NormCase& c : test::norm_cases()) {
    const bool* sync = c.config.find<bool>("sync");
    if (!c.training || !sync || !*sync) continue;
    const auto* warmup = c.config.find<std::int64_t>("warmup");
    for (bool padded : {false, true}) {
      all.push_back(
          {cat(c.name, padded ? " padded" : ""),
           [=, config = c.config](DType d, bool s) { return layer_of(config, d, s, padded); },
           !warmup || *warmup > 10, 1, padded});
    }
  }
  all.push_back({"cbn", [](DType d, bool sync) {
                   return layer_of<ConditionalBatchNorm>(test::ConditionKind::kVector,
                                                         {.channels = kChannels,
                                                          .condition = test::kConditionSize,
                                                          .hidden = 7,
                                                          .eps = 1e-3,
                                                          .sync = sync},
                                                         d);
                 }});
  all.push_back({"spade",
                 [](DType d, bool sync) {
                   return layer_of<SpatiallyAdaptiveNorm>(test::ConditionKind::kTokens,
                                                          {.channels = kChannels,
                                                           .condition = test::kConditionSize,
                                                           .hidden = 4,
                                                           .eps = 1e-3,
                                                           .sync = sync},
                                                          d);
                 },
                 true, 6});
  return all;
}

// Returns samples that differ, so the statistics of the shares differ too.
Tensor batch_around(double mean, double spread) {
  Tensor x = test::random_tensor({kBatch, kGrid.tokens(), kChannels}, 1, spread, mean);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    x.data<double>()[i] += 0.25 * static_cast<double>(i / (kGrid.tokens() * kChannels));
  }
  return x;
}

struct Results {
  Tensor y, dx;
  std::vector<Doubles> gradients;
  std::vector<Tensor> buffers;  // buffers for the next step
};

struct Pass {
  const SyncCase& layer;
  DType dtype;
  Tensor x;  // the whole batch
  bool sync = true, checkpointed = false;

  Results run(const Share& share, Context ctx) const {
    Layer built = layer.make(accumulator_of(dtype), sync);
    Variable input(test::as(x, dtype).slice(share.first, share.end).clone(), true);
    Tape tape;
    ctx.tape = &tape;
    ctx.mode.training = true;
    auto piece = [&](Context& c, const Variable& v) { return built.forward(c, v, share); };
    Variable y = checkpointed ? checkpoint(ctx, input, piece) : piece(ctx, input);
    Tensor dy = test::as(test::representable(test::random_tensor(x.shape(), 77)), dtype);
    tape.backward(y, dy.slice(share.first, share.end).clone());
    Results results{y.value(), input.grad(), {}, {}};
    for (const Parameter& p : built.store->parameters()) {
      results.gradients.push_back(test::doubles(ParameterStore::view(built.store->gradients(), p)));
    }
    for (const Buffer& b : built.store->buffers()) results.buffers.push_back(b.next.clone());
    return results;
  }
  Results run_alone() const { return run({}, {}); }

  // Returns the results of each rank.
  std::vector<Results> run_together(const std::vector<Share>& shares) const {
    std::vector<Results> all(shares.size());
    testing::with_ranks(static_cast<int>(shares.size()), [&](Communicator& ranks) {
      Context ctx;
      ctx.ranks.communicator = &ranks;
      ctx.ranks.samples = kBatch;
      const auto rank = static_cast<std::size_t>(ranks.rank());
      all[rank] = run(shares[rank], ctx);
    });
    return all;
  }
};

Doubles joined(const std::vector<Results>& ranks, Tensor Results::*part) {
  Doubles all;
  for (const Results& r : ranks) {
    const Doubles values = test::doubles(r.*part);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void expect_near(const Doubles& got, const Doubles& want, double tolerance,
                 const std::string& what) {
  EXPECT_GT(test::max_abs(want), 0) << what << ": a test of zeros";
  EXPECT_LE(test::max_abs_difference(got, want), tolerance * test::max_abs(want)) << what;
}

// `stored` is the rounding of y and dx in addition to the error `computed`.
void expect_together(const std::vector<Results>& ranks, const Results& want, double computed,
                     double stored = 0) {
  expect_near(joined(ranks, &Results::y), test::doubles(want.y), computed + stored, "y");
  expect_near(joined(ranks, &Results::dx), test::doubles(want.dx), computed + stored, "dx");
  for (std::size_t k = 0; k < want.gradients.size(); ++k) {
    Doubles sum(want.gradients[k].size());
    for (const Results& r : ranks) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += r.gradients[k][i];
    }
    expect_near(sum, want.gradients[k], computed + stored, cat("parameter ", k));
  }
  for (std::size_t k = 0; k < want.buffers.size(); ++k) {
    expect_near(test::doubles(ranks[0].buffers[k]), test::doubles(want.buffers[k]), computed,
                cat("buffer ", k));
    for (const Results& r : ranks) {
      EXPECT_TRUE(test::same_bits(r.buffers[k], ranks[0].buffers[k])) << "buffer " << k;
    }
  }
}

double float32_tolerance() { return test::float32_tolerance(kBatch * kGrid.tokens() + kChannels); }

class NormSync : public ::testing::TestWithParam<SyncCase> {};

TEST_P(NormSync, MatchesWholeBatch) {
  for (const std::vector<Share>& shares : divisions()) {
    SCOPED_TRACE(cat(shares.size(), " ranks"));
    const Tensor x = test::representable(batch_around(0.5, 2));
    const Results want = Pass{GetParam(), DType::kFloat64, x}.run_alone();
    auto together = [&](DType dtype) {
      SCOPED_TRACE(name_of(dtype));
      return Pass{GetParam(), dtype, x}.run_together(shares);
    };
    expect_together(together(DType::kFloat64), want, 1e-12);
    expect_together(together(DType::kFloat32), want, float32_tolerance());
    expect_together(together(DType::kBFloat16), want, float32_tolerance(),
                    test::bfloat16_tolerance(GetParam().roundings));
  }
}

// A rank without tokens takes the statistics of the others and updates its running statistics with
// them.
TEST_P(NormSync, RankWithoutTokens) {
  if (!GetParam().padded) GTEST_SKIP() << "batches are cut so that each rank has samples";
  const Tensor x = batch_around(0.5, 2);
  const Pass pass{GetParam(), DType::kFloat64, x};
  const std::vector<Share> shares = {{0, 0}, {0, 2}, {2, 2}, {2, 6}};
  expect_together(pass.run_together(shares), pass.run_alone(), 1e-12);
}

// Mean 1000, standard deviation 1: the statistics of the ranks differ by less than the precision of
// this mean in float32.
TEST_P(NormSync, LargeMean) {
  const Tensor x =
      test::as(test::as(batch_around(1e3, std::sqrt(3.0)), DType::kFloat32), DType::kFloat64);
  const Results want = Pass{GetParam(), DType::kFloat64, x}.run_alone();
  for (const std::vector<Share>& shares : divisions()) {
    SCOPED_TRACE(cat(shares.size(), " ranks"));
    expect_together(Pass{GetParam(), DType::kFloat32, x}.run_together(shares), want,
                    float32_tolerance());
  }
}

TEST_P(NormSync, RanksDifferWithoutSync) {
  const Tensor x = batch_around(0.5, 2);
  const Pass apart{GetParam(), DType::kFloat64, x, false};
  const Results want = apart.run_alone();
  const std::vector<Results> ranks = apart.run_together(divisions()[0]);
  if (GetParam().follows_batch) {
    EXPECT_GT(test::max_abs_difference(joined(ranks, &Results::y), test::doubles(want.y)), 1e-2);
  }
  for (const Results& r : ranks) {
    EXPECT_GT(test::max_abs_difference(test::doubles(r.buffers[0]), test::doubles(want.buffers[0])),
              1e-3);
  }
}

// Ranks synchronize again in the backward pass of a checkpoint, and statistics are counted once.
TEST_P(NormSync, SameResultsWithCheckpointing) {
  const Tensor x = batch_around(0.5, 2);
  Pass pass{GetParam(), DType::kFloat32, x};
  const std::vector<Results> plain = pass.run_together(divisions()[1]);
  pass.checkpointed = true;
  const std::vector<Results> again = pass.run_together(divisions()[1]);
  for (std::size_t r = 0; r < plain.size(); ++r) {
    EXPECT_TRUE(test::same_bits(again[r].y, plain[r].y));
    EXPECT_TRUE(test::same_bits(again[r].dx, plain[r].dx));
    EXPECT_EQ(again[r].gradients, plain[r].gradients);
    for (std::size_t k = 0; k < plain[r].buffers.size(); ++k) {
      EXPECT_TRUE(test::same_bits(again[r].buffers[k], plain[r].buffers[k])) << "buffer " << k;
    }
  }
}

TEST_P(NormSync, ChangesNothingWithOneRank) {
  const Tensor x = batch_around(0.5, 2);
  Communicator alone;
  Context ctx;
  ctx.ranks.communicator = &alone;
  const Results want = Pass{GetParam(), DType::kFloat32, x, false}.run_alone();
  const Results got = Pass{GetParam(), DType::kFloat32, x, true}.run({}, ctx);
  EXPECT_TRUE(test::same_bits(got.y, want.y));
  EXPECT_TRUE(test::same_bits(got.dx, want.dx));
  EXPECT_EQ(got.gradients, want.gradients);
}

INSTANTIATE_TEST_SUITE_P(All, NormSync, ::testing::ValuesIn(sync_cases()), [](const auto& each) {
  std::string name = each.param.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

TEST(SharedBatch, EvaluationNeedsNoCommunication) {
  testing::with_ranks(2, [&](Communicator& ranks) {
    if (!ranks.is_root()) return;
    for (const SyncCase& c : sync_cases()) {
      Layer layer = c.make(DType::kFloat64, true);
      Context ctx;
      ctx.ranks.communicator = &ranks;
      layer.forward(ctx, Variable(batch_around(0, 1)), {});
    }
  });
}

// A number of samples that differs from the sum of the shares is detected on every rank.
TEST(SharedBatch, SharesMustAddUp) {
  for (std::int64_t samples : {std::int64_t{0}, std::int64_t{1}, kBatch + 1}) {
    testing::with_ranks(2, [&](Communicator& ranks) {
      Context ctx;
      ctx.mode.training = true;
      ctx.ranks.communicator = &ranks;
      ctx.ranks.samples = samples;
      const auto share = divisions()[0][static_cast<std::size_t>(ranks.rank())];
      Layer layer = sync_cases()[0].make(DType::kFloat64, true);
      Variable x(batch_around(0, 1).slice(share.first, share.end));
      if (samples == 1 && share.end - share.first == 1) return;  // rank 0 alone cannot detect it
      EXPECT_THROW(layer.forward(ctx, x, share), Error) << samples;
    });
  }
}

}  // namespace
}  // namespace dtn
