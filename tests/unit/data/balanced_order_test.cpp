// Epochs that draw all classes equally often.
#include "data/feed/balanced_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "chi_square.h"
#include "data/classes/only_classes.h"
#include "dtn/core/philox.h"
#include "loader_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Indices = std::vector<std::int64_t>;

constexpr std::uint64_t kSeed = 11;

// 3 samples of class 4, 40 of class 0 and 7 of class 2, in turn at first.
Indices some_labels() {
  Indices labels;
  for (std::int64_t i = 0; i < 40; ++i) {
    labels.push_back(0);
    if (i < 3) labels.push_back(4);
    if (i < 7) labels.push_back(2);
  }
  return labels;
}

LoaderOptions by_class(const Indices& labels, std::int64_t batch_size = 5) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = true;
  options.seed = kSeed;
  options.drop_last = true;
  options.labels = labels;
  return options;
}

std::vector<PlannedSample> plan_of(const LoaderOptions& options, std::int64_t epoch) {
  EpochPlan plan(static_cast<std::int64_t>(options.labels.size()), options);
  plan.start(epoch);
  std::vector<PlannedSample> samples;
  for (std::int64_t i = 0; i < plan.length(); ++i) samples.push_back(plan.at(i));
  return samples;
}

Indices indices_of(const std::vector<PlannedSample>& samples) {
  Indices indices;
  for (const PlannedSample& sample : samples) indices.push_back(sample.index);
  return indices;
}

// Runs that resume depend on this order, so it stands here a second time.
Indices expected_order(const Indices& labels, std::int64_t epoch, std::int64_t pass) {
  std::map<std::int64_t, Indices> classes;
  const auto n = static_cast<std::int64_t>(labels.size());
  for (std::int64_t i = 0; i < n; ++i) classes[labels[static_cast<std::size_t>(i)]].push_back(i);
  const auto scaled = [](std::uint32_t low, std::uint32_t high, std::size_t count) {
    // The upper 64 bits of (high 2^32 + low) count.
    const std::uint64_t part = (std::uint64_t{low} * count) >> 32;
    return static_cast<std::size_t>((std::uint64_t{high} * count + part) >> 32);
  };
  Indices order;
  for (std::int64_t place = 0; place < n; ++place) {
    const Philox4 words =
        philox_group({kSeed, 0x42414c43 /* "BALC" */, static_cast<std::uint32_t>(epoch)},
                     static_cast<std::uint64_t>(pass * n + place));
    const auto& of_class =
        std::next(classes.begin(),
                  static_cast<std::ptrdiff_t>(scaled(words.v[0], words.v[1], classes.size())))
            ->second;
    order.push_back(of_class[scaled(words.v[2], words.v[3], of_class.size())]);
  }
  return order;
}

TEST(BalancedOrder, DrawsByEpochAndPlace) {
  const Indices labels = some_labels();
  LoaderOptions options = by_class(labels);
  options.repeats = 2;
  for (std::int64_t epoch : {0, 7}) {
    Indices expected = expected_order(labels, epoch, 0);
    const Indices second = expected_order(labels, epoch, 1);
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(indices_of(plan_of(options, epoch)), expected);
  }
  EXPECT_NE(expected_order(labels, 0, 0), expected_order(labels, 7, 0));
  const Indices first = indices_of(plan_of(options, 0));
  EXPECT_EQ(Indices(first.begin(), first.begin() + 12),
            (Indices{0, 35, 4, 2, 16, 4, 3, 17, 18, 10, 12, 8}));
}

TEST(BalancedOrder, ClassesAndTheirSamplesAreEquallyLikely) {
  const Indices labels = some_labels();
  std::map<std::int64_t, double> classes;
  std::map<std::int64_t, std::map<std::int64_t, double>> samples;
  for (std::int64_t epoch = 0; epoch < 400; ++epoch) {
    for (const std::int64_t i : indices_of(plan_of(by_class(labels), epoch))) {
      const std::int64_t label = labels[static_cast<std::size_t>(i)];
      ++classes[label];
      ++samples[label][i];
    }
  }
  const auto expect_uniform = [](const std::map<std::int64_t, double>& counts, std::size_t cells) {
    std::vector<double> all;
    for (const auto& [key, count] : counts) all.push_back(count);
    ASSERT_EQ(all.size(), cells);
    const ChiSquare test = chi_square(all, std::vector<double>(cells, 1));
    EXPECT_LT(test.statistic, test.bound);
  };
  expect_uniform(classes, 3);
  expect_uniform(samples[0], 40);
  expect_uniform(samples[2], 7);
  expect_uniform(samples[4], 3);
}

TEST(BalancedOrder, KeepsLengthAndGivesEachUseItsOwnRandomNumbers) {
  const Indices labels = some_labels();
  for (auto [repeats, copies] : {std::pair{1, 1}, {3, 1}, {2, 3}}) {
    LoaderOptions options = by_class(labels);
    options.repeats = repeats;
    options.copies = copies;
    LoaderOptions uniform = options;
    uniform.labels.clear();
    const auto samples = plan_of(options, 1);
    EXPECT_EQ(static_cast<std::int64_t>(samples.size()), EpochPlan(50, uniform).length());
    std::set<std::uint64_t> keys;
    for (const PlannedSample& sample : samples) keys.insert(sample.key);
    EXPECT_EQ(keys.size(), samples.size());
    if (copies == 1) continue;
    for (std::size_t i = 0; i + 2 < 48; i += 3) {
      EXPECT_EQ(samples[i].index, samples[i + 1].index);
      EXPECT_EQ(samples[i].index, samples[i + 2].index);
    }
  }
}

TEST(BalancedOrder, BatchesByLengthKeepTheDraws) {
  const Indices labels = some_labels();
  LoaderOptions options = by_class(labels);
  Indices expected = indices_of(plan_of(options, 3));
  for (std::int64_t i = 0; i < 50; ++i) options.lengths.push_back(100 + i * 37 % 50);
  Indices got = indices_of(plan_of(options, 3));
  EXPECT_NE(got, expected);
  std::ranges::sort(got);
  std::ranges::sort(expected);
  EXPECT_EQ(got, expected);
}

TEST(BalancedOrder, FixedOrderIgnoresClasses) {
  LoaderOptions options = by_class(some_labels());
  options.shuffle = false;
  Indices all(50);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(indices_of(plan_of(options, 3)), all);
}

// 50 images of the classes of some_labels(), some of them damaged.
std::shared_ptr<const Dataset> uneven_images(const std::set<std::int64_t>& bad) {
  Indices new_label(1050, OnlyClasses::kNone);  // of a fake's label
  std::ranges::copy(some_labels(), new_label.begin() + 1000);
  return std::make_shared<OnlyClasses>(dataset_with_bad(50, bad), new_label, ClassList{"", {}, 5});
}

// The batches of an epoch, assembled from those of all ranks: indices, labels and pixels.
using Rows = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>>;
Rows rows_of_epoch(LoaderOptions options, int ranks, std::int64_t first_batch) {
  Rows rows;
  for (int rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    options.ranks = ranks;
    const Indices mine = rows_of_rank(options.batch_size, rank, ranks);
    for (const Record& r : epoch(uneven_images({4, 30}), options, 2, first_batch)) {
      const std::size_t each = r.pixels.size() / mine.size();
      for (std::size_t i = 0; i < mine.size(); ++i) {
        std::vector<float>& row = rows[{r.number, mine[i]}];
        const auto begin = r.pixels.begin() + static_cast<std::ptrdiff_t>(i * each);
        row = {static_cast<float>(r.indices[i]), static_cast<float>(r.labels[i])};
        row.insert(row.end(), begin, begin + static_cast<std::ptrdiff_t>(each));
      }
    }
  }
  return rows;
}

TEST(BalancedOrder, SameBitsForAnyWorkersRanksAndResume) {
  LoaderOptions options = training(0, 10);
  options.balanced = true;
  const Rows expected = rows_of_epoch(options, 1, 0);
  ASSERT_EQ(expected.size(), 50u);
  std::map<float, int> labels;
  for (const auto& [place, row] : expected) ++labels[row[1]];
  EXPECT_GT(labels[4], 6) << "a class with 3 of 50 images";
  for (auto [ranks, workers] : {std::pair{1, 3}, {2, 1}, {3, 0}, {5, 2}}) {
    options.workers = workers;
    EXPECT_TRUE(rows_of_epoch(options, ranks, 0) == expected) << ranks << " ranks";
    const Rows rest(expected.lower_bound({2, 0}), expected.end());
    EXPECT_TRUE(rows_of_epoch(options, ranks, 2) == rest) << ranks << " ranks, resumed";
  }
}

TEST(BalancedOrder, NeedsClasses) {
  class Unlabelled final : public SampleSource {
   public:
    std::int64_t size() const override { return 8; }
    const std::string& description() const override { return description_; }
    std::string noun() const override { return "images"; }
    std::vector<FieldSpec> host_fields() const override { return {}; }
    void make(std::int64_t, const SampleKey&, FieldRow&, Workspace&) const override {}

   private:
    std::string description_ = "a heap";
  };
  LoaderOptions options = training(0, 4);
  EXPECT_TRUE(checked(options, Unlabelled()).labels.empty());
  options.balanced = true;
  expect_error<ConfigError>([&] { checked(options, Unlabelled()); },
                            {"data.sampling: balanced needs images with one class each", "a heap"});
  options.shuffle = false;
  EXPECT_TRUE(checked(options, Unlabelled()).labels.empty());
}

}  // namespace
}  // namespace dtn
