// The k-NN meter: several ranks and small gathered blocks give the result of one process, and
// features that are not finite give NaN on every rank.
#include "tasks/neighbors_meter.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include "tensors.h"
#include "thread_ranks.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kReferences = 101, kQueries = 37, kWidth = 6, kClasses = 9;

Tensor rows_of(const Tensor& x, const std::vector<std::int64_t>& rows) {
  Tensor some = Tensor::empty({static_cast<std::int64_t>(rows.size()), x.dim(1)}, x.dtype());
  std::int64_t to = 0;
  for (const std::int64_t row : rows) {
    some.slice(to, to + 1).copy_from(x.slice(row, row + 1));
    ++to;
  }
  return some;
}

struct Samples {
  Tensor features;  // [n, kWidth]
  std::uint32_t stream;

  Samples(std::int64_t n, std::uint32_t of_stream)
      : features(as(random_tensor({n, kWidth}, of_stream), DType::kFloat32)), stream(of_stream) {}

  // Calls `add` with batches of five of the samples rank, rank + ranks, ..., the last first.
  template <class F>
  void each_batch(int rank, int ranks, const F& add) const {
    std::vector<std::int64_t> own;
    for (std::int64_t i = rank; i < features.dim(0); i += ranks) own.insert(own.begin(), i);
    for (std::size_t at = 0; at < own.size(); at += 5) {
      const auto begin = own.begin() + static_cast<std::ptrdiff_t>(at);
      const std::vector<std::int64_t> some(begin,
                                           begin + std::min<std::ptrdiff_t>(5, own.end() - begin));
      std::vector<std::int64_t> labels;
      for (const std::int64_t i : some) labels.push_back((i * i + stream) % kClasses);
      const auto n = static_cast<std::int64_t>(some.size());
      add({{"label", Tensor::from(labels, {n})}, {"index", Tensor::from(some, {n})}},
          {{"features", rows_of(features, some)}});
    }
  }
};

struct Problem {
  Samples references{kReferences, 3}, queries{kQueries, 4};

  Problem() {
    // Equal features of different classes: the first of the data set counts.
    for (const std::int64_t i : {90, 50, 7}) {
      references.features.slice(i, i + 1).copy_from(queries.features.slice(0, 1));
    }
  }
  void add_to(NeighborsMeter& meter, int rank, int ranks) const {
    references.each_batch(rank, ranks,
                          [&](const Fields& b, const Fields& o) { meter.add_reference(b, o); });
    queries.each_batch(rank, ranks, [&](const Fields& b, const Fields& o) { meter.add(b, o); });
  }
};

NeighborsMeter meter_of(std::int64_t gathered_bytes = NeighborsMeter::kGatheredBytes) {
  return NeighborsMeter({.k = 1}, gathered_bytes);
}

// Results of all ranks.
std::vector<Metrics> shared_results(const Problem& problem, int size, std::int64_t bytes) {
  std::vector<Metrics> results;
  std::mutex mutex;
  testing::with_ranks(size, [&](Communicator& ranks) {
    NeighborsMeter meter = meter_of(bytes);
    problem.add_to(meter, ranks.rank(), ranks.size());
    meter.merge(ranks);
    const std::lock_guard lock(mutex);
    results.push_back(meter.result());
  });
  return results;
}

TEST(NeighborsMeter, RanksAndBlocksChangeNothing) {
  const Problem problem;
  NeighborsMeter alone = meter_of();
  problem.add_to(alone, 0, 1);
  const Metrics want = alone.result();
  ASSERT_GT(want.at("top1"), 0);
  ASSERT_LT(want.at("top1"), want.at("top5"));
  EXPECT_EQ(alone.result().at("top1"), want.at("top1"));  // the samples are still there
  constexpr std::int64_t kRowBytes = kWidth * sizeof(float);
  for (const int size : {1, 2, 3}) {
    // One row at a time, four rows of each rank, all.
    for (const std::int64_t bytes :
         {std::int64_t{1}, 4 * size * kRowBytes, NeighborsMeter::kGatheredBytes}) {
      SCOPED_TRACE(cat(size, " ranks, blocks of ", bytes, " bytes"));
      for (const Metrics& got : shared_results(problem, size, bytes)) {
        EXPECT_EQ(got.at("top1"), want.at("top1"));
        EXPECT_EQ(got.at("top5"), want.at("top5"));
      }
    }
  }
}

// Counts the bytes that a communicator gathers at once.
class MeasuringTransport : public testing::ThreadTransport {
 public:
  using ThreadTransport::ThreadTransport;
  std::unique_ptr<Move> gather(std::byte* all, const std::vector<ByteBlock>& blocks) override {
    std::size_t bytes = 0;
    for (const ByteBlock& block : blocks) bytes += block.bytes;
    std::size_t before = largest;
    while (bytes > before && !largest.compare_exchange_weak(before, bytes)) {
    }
    return ThreadTransport::gather(all, blocks);
  }
  static inline std::atomic<std::size_t> largest = 0;
};

TEST(NeighborsMeter, GathersBlocksBelowTheLimit) {
  constexpr std::int64_t kBytes = 4096;
  static_assert(kReferences * 100 * sizeof(float) > 9 * kBytes);
  const Tensor wide = as(random_tensor({kReferences, 100}, 5), DType::kFloat32);
  testing::with_ranks<MeasuringTransport>(2, [&](Communicator& ranks) {
    NeighborsMeter meter = meter_of(kBytes);
    std::vector<std::int64_t> own;
    for (std::int64_t i = ranks.rank(); i < kReferences; i += 2) own.push_back(i);
    const auto n = static_cast<std::int64_t>(own.size());
    const Fields batch{{"label", Tensor::zeros({n}, DType::kInt64)},
                       {"index", Tensor::from(own, {n})}};
    meter.add_reference(batch, {{"features", rows_of(wide, own)}});
    meter.add(batch, {{"features", rows_of(wide, own)}});
    ranks.barrier();
    if (ranks.is_root()) MeasuringTransport::largest = 0;
    ranks.barrier();
    meter.merge(ranks);
    EXPECT_EQ(meter.result().at("top1"), 100);
  });
  EXPECT_GT(MeasuringTransport::largest, kBytes / 2);
  EXPECT_LE(MeasuringTransport::largest, kBytes);
}

TEST(NeighborsMeter, FeatureThatIsNotFiniteGivesNanOnEveryRank) {
  for (const bool reference : {true, false}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
      Problem problem;
      // Sample 2 belongs to the last rank of three.
      (reference ? problem.references : problem.queries).features.data<float>()[2 * kWidth] = bad;
      for (const int size : {1, 3}) {
        const std::vector<Metrics> results = shared_results(problem, size, 64);
        EXPECT_EQ(results.size(), static_cast<std::size_t>(size));
        for (const Metrics& got : results) {
          EXPECT_TRUE(std::isnan(got.primary_value()));
          EXPECT_TRUE(std::isnan(got.at("top5")));
        }
      }
    }
  }
}

// A rank may have no sample of either kind.
TEST(NeighborsMeter, RankWithoutSamples) {
  Metrics want, got;
  const Problem problem;
  NeighborsMeter alone = meter_of();
  problem.add_to(alone, 0, 1);
  want = alone.result();
  testing::with_ranks(2, [&](Communicator& ranks) {
    NeighborsMeter meter = meter_of(100);
    if (ranks.is_root()) problem.add_to(meter, 0, 1);
    meter.merge(ranks);
    if (!ranks.is_root()) got = meter.result();
  });
  EXPECT_EQ(got.at("top1"), want.at("top1"));
  EXPECT_EQ(got.at("top5"), want.at("top5"));
}

TEST(NeighborsMeter, NoReferencesAreAnErrorOnEveryRank) {
  const Problem problem;
  testing::with_ranks(2, [&](Communicator& ranks) {
    NeighborsMeter meter = meter_of();
    if (ranks.is_root()) {
      problem.queries.each_batch(0, 1, [&](const Fields& b, const Fields& o) { meter.add(b, o); });
    }
    EXPECT_THROW(meter.merge(ranks), DataError);
  });
}

}  // namespace
}  // namespace dtn::test
