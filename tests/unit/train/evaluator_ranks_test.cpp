// An evaluation shared by several ranks gives the results of one rank, to the last digit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "data/feed/open_split.h"
#include "independent_images.h"
#include "small_run.h"
#include "train/evaluator.h"

namespace dtn {
namespace {

using namespace dtn::test;

void expect_same(const Metrics& a, const Metrics& b, bool to_the_last_digit = true) {
  EXPECT_EQ(a.at("top1"), b.at("top1"));
  EXPECT_EQ(a.at("top5"), b.at("top5"));
  const double loss = a.at("loss"), other = b.at("loss");
  if (to_the_last_digit) {
    EXPECT_EQ(std::memcmp(&loss, &other, sizeof loss), 0) << loss << " and " << other;
  } else {
    EXPECT_NEAR(loss, other, 1e-6 * std::abs(other));
  }
}

// --- AccuracyMeter ------------------------------------------------------------------------------

constexpr std::int64_t kSamples = 211, kClasses = 9;

struct Predictions {
  Tensor logits, labels;

  // Adds the samples in the given order, in batches of at most seven.
  void add_to(AccuracyMeter& meter, const std::vector<std::int64_t>& samples) const {
    for (std::size_t at = 0; at < samples.size(); at += 7) {
      const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(at);
      const std::vector<std::int64_t> some(
          begin,
          begin + static_cast<std::ptrdiff_t>(std::min<std::size_t>(7, samples.size() - at)));
      const auto n = static_cast<std::int64_t>(some.size());
      meter.add({{"label", rows_of(labels, some)}, {"index", Tensor::from(some, {n})}},
                {{"logits", rows_of(logits, some)}});
    }
  }
};

Predictions predictions(bool with_nan) {
  Predictions p{as(random_tensor({kSamples, kClasses}, 7, 5), DType::kFloat32),
                Tensor::empty({kSamples}, DType::kInt64)};
  for (std::int64_t i = 0; i < kSamples; ++i) p.labels.data<std::int64_t>()[i] = i % kClasses;
  // Losses so large that their last digits show the order of additions.
  for (std::int64_t i : {60, 100, 150}) {
    p.logits.data<float>()[i * kClasses + i % kClasses] = -1e12f / static_cast<float>(i);
  }
  if (with_nan) std::ranges::fill_n(p.logits.data<float>() + 50 * kClasses, 2 * kClasses, NAN);
  return p;
}

// Function that returns the rank of a sample.
using Owner = int (*)(std::int64_t sample, int size);
constexpr std::pair<const char*, Owner> kOwners[] = {
    {"in turn", [](std::int64_t i, int size) { return static_cast<int>(i % size); }},
    {"most by the last", [](std::int64_t i, int size) { return i % 10 == 0 ? 0 : size - 1; }},
    {"none by the last",
     [](std::int64_t i, int size) { return static_cast<int>(i * i % std::max(1, size - 1)); }},
    {"all by the first", [](std::int64_t, int) { return 0; }}};

// Labels 0 to 3 and 4 to 8 are two label sets.
AccuracyMeter meter_of_sets() { return AccuracyMeter({}, {{"low", 0, 4}, {"high", 4, 5}}); }

TEST(AccuracyOfLabelSets, AddsUpToTop1) {
  const Predictions p = predictions(true);
  AccuracyMeter meter = meter_of_sets();
  std::vector<std::int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  p.add_to(meter, all);
  const Metrics m = meter.result();
  const auto low = std::ranges::count_if(p.labels.values<std::int64_t>(),
                                         [](std::int64_t label) { return label < 4; });
  const double hits = m.at("top1_low") * static_cast<double>(low) +
                      m.at("top1_high") * static_cast<double>(kSamples - low);
  EXPECT_NEAR(hits / kSamples, m.at("top1"), 1e-9);
  EXPECT_NE(m.at("top1_low"), m.at("top1_high"));
  EXPECT_NE(m.text.find("  low "), std::string::npos) << m.text;
}

TEST(MergedAccuracy, MatchesSingleRankBitForBit) {
  for (bool with_nan : {false, true}) {
    const Predictions p = predictions(with_nan);
    AccuracyMeter alone = meter_of_sets();
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < kSamples; ++i) all.push_back(i);
    p.add_to(alone, all);
    const Metrics want = alone.result();
    EXPECT_EQ(std::isnan(want.at("loss")), with_nan);
    EXPECT_GT(want.at("top5"), want.at("top1"));
    EXPECT_GT(want.at("top1"), 0);
    for (int size : {1, 2, 3, 4}) {
      for (const auto& [name, owner] : kOwners) {
        SCOPED_TRACE(cat(size, " ranks, ", name, with_nan ? ", with NaN" : ""));
        const auto results = on_ranks(size, [&, owner = owner](Communicator& ranks) {
          AccuracyMeter meter = meter_of_sets();
          std::vector<std::int64_t> own;
          for (std::int64_t i : all) {
            if (owner(i, size) == ranks.rank()) own.push_back(i);
          }
          p.add_to(meter, own);
          meter.merge(ranks);
          return meter.result();
        });
        for (const Metrics& result : results) {
          expect_same(result, want);
          EXPECT_EQ(result.at("top1_low"), want.at("top1_low"));
          EXPECT_EQ(result.at("top1_high"), want.at("top1_high"));
        }
      }
    }
  }
}

TEST(MergedAccuracy, IsZeroWithoutSamples) {
  for (const Metrics& result : on_ranks(3, [](Communicator& ranks) {
         AccuracyMeter meter;
         meter.merge(ranks);
         return meter.result();
       })) {
    expect_same(result, {.values = {{"top1", 0}, {"top5", 0}, {"loss", 0}}, .primary = "top1"});
  }
}

// --- evaluate -----------------------------------------------------------------------------------

ExperimentConfig evaluation_config(std::int64_t images) {
  ExperimentConfig c = small_run("bn");
  c.model.channels = 3;
  c.data.dataset = "synthetic";
  c.data.size = images;
  c.data.workers = 0;
  return c;
}

// A model and its images on one rank.
struct RankEvaluation {
  RankEvaluation(const ExperimentConfig& config, std::int64_t batch_size, Communicator* job)
      : ranks(job),
        task(config),
        split(open_split(config, Split::kVal, options_of(batch_size, job))) {
    perturb(task.model().parameters());
  }

  static SplitOptions options_of(std::int64_t batch_size, const Communicator* ranks) {
    SplitOptions options;
    options.batch_size = batch_size;
    if (ranks) options.rank = ranks->rank();
    if (ranks) options.ranks = ranks->size();
    return options;
  }

  std::optional<Evaluation> run(const std::function<bool()>& stop = {}) {
    EvalOptions options;
    options.ranks = ranks;
    options.stop = stop;
    options.on_batch = [this](const DeviceBatch&, const Fields&, std::int64_t) { ++batches; };
    batches = 0;
    return evaluate(task, split->feeder(), options);
  }

  Communicator* ranks;
  Classify task;
  std::unique_ptr<OpenSplit> split;
  int batches = 0;  // with a row for this rank
};

TEST(MultiRankEvaluation, CountsEveryImageOnce) {
  for (std::int64_t batch_size : {1, 4, 7, 64}) {
    const ExperimentConfig config = evaluation_config(29);
    const Evaluation want = RankEvaluation(config, batch_size, nullptr).run().value();
    EXPECT_EQ(want.count, 29);
    for (int size : {2, 3}) {
      SCOPED_TRACE(cat(size, " ranks, batches of ", batch_size));
      const auto results = on_ranks(size, [&](Communicator& ranks) {
        return RankEvaluation(config, batch_size, &ranks).run().value();
      });
      for (const Evaluation& result : results) {
        EXPECT_EQ(result.count, want.count);
        expect_same(result.metrics, want.metrics, images_are_independent());
      }
    }
  }
}

// 13 images in batches of 6: the last batch is one row, on the first rank.
TEST(MultiRankEvaluation, StopsOnAllRanksWhenOneStops) {
  constexpr int kBatches = 3, kSize = 3;
  const ExperimentConfig config = evaluation_config(13);
  for (int stopped : {0, 1, kSize - 1}) {
    for (int at = 1; at <= kBatches; ++at) {
      SCOPED_TRACE(cat("rank ", stopped, " before batch ", at));
      on_ranks(kSize, [&](Communicator& ranks) {
        RankEvaluation evaluation(config, 6, &ranks);
        int asked = 0;
        const auto result =
            evaluation.run([&] { return ++asked == at && ranks.rank() == stopped; });
        EXPECT_FALSE(result.has_value());
        EXPECT_EQ(asked, at);
        // All ranks stopped together: the next evaluation is complete.
        asked = -100;
        const auto whole = evaluation.run([&] {
          ++asked;
          return false;
        });
        EXPECT_EQ(whole.value().count, 13);
        EXPECT_EQ(asked, kBatches - 100);
        EXPECT_EQ(evaluation.batches, ranks.is_root() ? kBatches : kBatches - 1);
        return 0;
      });
    }
  }
}

}  // namespace
}  // namespace dtn
