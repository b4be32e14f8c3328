// Dropout and DropPath: masks depend on the path of the module, the pass, the step and the sample.
#include "dtn/nn/drop.h"

#include <set>

#include "statistics.h"
#include "tensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr double kRate = 0.3;

Context training() {
  Context ctx;
  ctx.mode.training = true;
  ctx.rng.seed = 4;
  ctx.rng.step = 2;
  return ctx;
}

Tensor ones(const Shape& shape) { return Tensor::full(shape, DType::kFloat32, 1); }

// A module that drops, and its result for ones.
struct Dropper {
  const char* name;
  Tensor (*draw)(Context ctx, const char* path, double rate, std::int64_t samples);
};

// [samples, 40]
Tensor draw_dropout(Context ctx, const char* path, double rate, std::int64_t samples) {
  ParameterStore store;
  return Dropout({store, path}, rate).forward(ctx, Variable(ones({samples, 40}))).value();
}

// [samples]
Tensor draw_drop_path(Context ctx, const char* path, double rate, std::int64_t samples) {
  ParameterStore store;
  return DropPath({store, path}, rate).scales(ctx, Variable(ones({samples, 40})));
}

class DropMasks : public ::testing::TestWithParam<Dropper> {
 protected:
  static Tensor draw(const Context& ctx, const char* path, std::int64_t samples = 2000) {
    return GetParam().draw(ctx, path, kRate, samples);
  }
};

INSTANTIATE_TEST_SUITE_P(, DropMasks,
                         ::testing::Values(Dropper{"Elements", draw_dropout},
                                           Dropper{"Samples", draw_drop_path}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(DropMasks, SameForSamePathAndPass) {
  const Tensor first = draw(training(), "blocks.0.drop");
  EXPECT_TRUE(same_bits(draw(training(), "blocks.0.drop"), first));
  EXPECT_TRUE(same_bits(draw(training().of_pass(0), "blocks.0.drop"), first));
  const Tensor second = draw(training().of_pass(1), "blocks.0.drop");
  EXPECT_TRUE(same_bits(draw(training().of_pass(3).of_pass(1), "blocks.0.drop"), second));
}

// Two independent masks agree as often as expected by chance.
TEST_P(DropMasks, IndependentAcrossPathsPassesStepsAndSeeds) {
  Context next_step = training(), other_seed = training();
  ++next_step.rng.step;
  ++other_seed.rng.seed;
  const std::vector<std::pair<std::string, Tensor>> masks = {
      {"a module", draw(training(), "blocks.0.drop")},
      {"another module", draw(training(), "blocks.1.drop")},
      {"the second pass", draw(training().of_pass(1), "blocks.0.drop")},
      {"the third pass", draw(training().of_pass(2), "blocks.0.drop")},
      {"the second pass of another module", draw(training().of_pass(1), "blocks.1.drop")},
      {"the next step", draw(next_step, "blocks.0.drop")},
      {"another seed", draw(other_seed, "blocks.0.drop")}};
  const double agree = kRate * kRate + (1 - kRate) * (1 - kRate);
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const Doubles a = doubles(masks[i].second), b = doubles(masks[k].second);
      const auto n = static_cast<double>(a.size());
      double same = 0;
      for (std::size_t e = 0; e < a.size(); ++e) same += (a[e] == 0) == (b[e] == 0);
      EXPECT_NEAR(same, n * agree, 5 * std::sqrt(n * agree * (1 - agree)))
          << masks[i].first << " and " << masks[k].first;
    }
  }
}

TEST_P(DropMasks, DropWithConfiguredRate) {
  constexpr std::int64_t kSamples = 5000;
  for (double rate : {0.05, 0.3, 0.5, 0.9}) {
    SCOPED_TRACE(rate);
    const auto kept = static_cast<double>(static_cast<float>(1 / (1 - rate)));
    double dropped = 0, all = 0;
    // Number of zeros in groups of eight.
    std::vector<std::int64_t> counts(9);
    for (std::uint32_t pass = 0; pass < 4; ++pass) {
      const Doubles mask =
          doubles(GetParam().draw(training().of_pass(pass), "blocks.0.drop", rate, kSamples));
      for (std::size_t at = 0; at < mask.size(); at += 8) {
        std::size_t zeros = 0;
        for (std::size_t i = at; i < at + 8; ++i) {
          EXPECT_TRUE(mask[i] == 0 || mask[i] == kept) << mask[i];
          zeros += mask[i] == 0;
        }
        ++counts[zeros];
        dropped += static_cast<double>(zeros);
        all += 8;
      }
    }
    EXPECT_NEAR(dropped, all * rate, 5 * std::sqrt(all * rate * (1 - rate)));
    // Pearson's test needs an expected count of at least five, so smaller ones are merged.
    std::vector<std::int64_t> kinds{0};
    std::vector<double> expected{0};
    for (int zeros = 0; zeros <= 8; ++zeros) {
      const double choose =
          std::exp(std::lgamma(9) - std::lgamma(zeros + 1) - std::lgamma(9 - zeros));
      const double often = all / 8 * choose * std::pow(rate, zeros) * std::pow(1 - rate, 8 - zeros);
      const std::size_t kind = often < 5 ? 0 : kinds.size();
      if (kind == kinds.size()) kinds.push_back(0), expected.push_back(0);
      kinds[kind] += counts[static_cast<std::size_t>(zeros)];
      expected[kind] += often;
    }
    EXPECT_GT(p_counts(kinds, expected), 1e-5);
  }
}

TEST_P(DropMasks, DropNothingInEvaluationOrAtRateZero) {
  Context ctx;
  for (const Tensor& kept :
       {draw(ctx, "blocks.0.drop"), GetParam().draw(training(), "blocks.0.drop", 0, 8)}) {
    if (!kept.defined()) continue;  // null: a scale of 1
    for (double v : doubles(kept)) ASSERT_EQ(v, 1);
  }
}

// In later passes too, the mask of a sample depends on its place in the global batch.
TEST_P(DropMasks, DoNotDependOnBatchSplit) {
  for (std::uint32_t pass : {0u, 1u, 5u}) {
    const Tensor whole = draw(training().of_pass(pass), "blocks.0.drop", 12);
    for (auto [begin, end] : {std::pair{0, 1}, {1, 7}, {7, 12}}) {
      Context ctx = training().of_pass(pass);
      ctx.rng.first_sample = static_cast<std::uint64_t>(begin);
      EXPECT_TRUE(same_bits(draw(ctx, "blocks.0.drop", end - begin), whole.slice(begin, end)));
    }
    const std::vector<std::int64_t> rows = {11, 3, 4};
    Context ctx = training().of_pass(pass);
    ctx.rng.rows = rows.data();
    const Tensor some = draw(ctx, "blocks.0.drop", 3);
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i)];
      EXPECT_TRUE(same_bits(some.slice(i, i + 1), whole.slice(row, row + 1))) << row;
    }
  }
}

TEST(Dropout, BackwardUsesMaskOfItsPass) {
  ParameterStore store;
  const Dropout dropout({store, "blocks.0.drop"}, kRate);
  Tape tape;
  Context first = training(), second = training().of_pass(1);
  first.tape = second.tape = &tape;
  Variable a(ones({50, 40}), true), b(ones({50, 40}), true);
  const Variable of_a = dropout.forward(first, a), of_b = dropout.forward(second, b);
  tape.backward(of_b, ones({50, 40}));
  EXPECT_TRUE(same_bits(b.grad(), of_b.value()));
  EXPECT_FALSE(same_bits(b.grad(), of_a.value()));
}

// All streams of a large model with many passes are different.
TEST(RandomStreams, DifferForEveryModuleAndPass) {
  std::vector<std::string> paths = {"pos_drop"};
  for (int block = 0; block < 32; ++block) {
    for (const char* part :
         {"drop_path1", "drop_path2", "attn.proj_drop", "mlp.drop1", "mlp.drop2"}) {
      paths.push_back(cat("blocks.", block, ".", part));
    }
  }
  constexpr std::uint32_t kPasses = 64;
  std::set<std::uint32_t> streams;
  for (const std::string& path : paths) {
    for (std::uint32_t pass = 0; pass < kPasses; ++pass) {
      streams.insert(training().of_pass(pass).rng.key(stream_of(path)).stream);
    }
  }
  EXPECT_EQ(streams.size(), paths.size() * kPasses);
  EXPECT_EQ(training().rng.key(7).stream, 7u) << "the first pass draws as a step of one pass does";
}

}  // namespace
}  // namespace dtn
