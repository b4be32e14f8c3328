// k-NN against a plain loop in float64.
#include "tasks/frozen/nearest_neighbors.h"

#include <algorithm>
#include <numeric>

#include "tensors.h"

namespace dtn::test {
namespace {

struct PlainNeighbors {
  std::vector<std::int64_t> indices, ranking;
  Doubles similarities;
};

double plain_dot(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  double sum = 0;
  for (std::int64_t c = 0; c < a.dim(1); ++c) {
    sum += element(a, i * a.dim(1) + c) * element(b, j * b.dim(1) + c);
  }
  return sum;
}

// The neighbours of query q: sorts all rows of the bank.
PlainNeighbors plain_neighbors(const Tensor& bank, const std::vector<std::int64_t>& labels,
                               const Tensor& queries, std::int64_t q, std::int64_t k, double t) {
  const std::int64_t size = bank.dim(0), classes = std::ranges::max(labels) + 1;
  const double norm = std::sqrt(plain_dot(queries, q, queries, q));
  Doubles similarity;
  for (std::int64_t i = 0; i < size; ++i) {
    similarity.push_back(plain_dot(queries, q, bank, i) / norm /
                         std::sqrt(plain_dot(bank, i, bank, i)));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](auto i) { return similarity[static_cast<std::size_t>(i)]; });
  order.resize(static_cast<std::size_t>(std::min(k, size)));
  PlainNeighbors result{order, {}, {}};
  Doubles votes(static_cast<std::size_t>(classes));
  for (std::int64_t i : order) {
    const auto at = static_cast<std::size_t>(i);
    result.similarities.push_back(similarity[at]);
    votes[static_cast<std::size_t>(labels[at])] += std::exp(similarity[at] / t);
  }
  result.ranking.resize(votes.size());
  std::iota(result.ranking.begin(), result.ranking.end(), std::int64_t{0});
  std::ranges::stable_sort(result.ranking, std::ranges::greater{},
                           [&](auto c) { return votes[static_cast<std::size_t>(c)]; });
  result.ranking.resize(std::min<std::size_t>(5, votes.size()));
  return result;
}

Tensor random_features(std::int64_t n, std::int64_t width, std::uint32_t stream, double spread = 1,
                       double mean = 0) {
  return as(random_tensor({n, width}, stream, spread, mean), DType::kFloat32);
}

std::vector<std::int64_t> cyclic_labels(std::int64_t n, std::int64_t classes) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(i * 5 % classes);
  return labels;
}

Tensor label_tensor(const std::vector<std::int64_t>& labels) {
  return Tensor::from(labels, {static_cast<std::int64_t>(labels.size())});
}

std::vector<std::int64_t> row_of(const Tensor& t, std::int64_t row) {
  const auto all = t.slice(row, row + 1).values<std::int64_t>();
  return {all.begin(), all.end()};
}

void expect_plain(const Tensor& bank, const std::vector<std::int64_t>& labels,
                  const Tensor& queries, std::int64_t k, double temperature) {
  const NearestNeighbors neighbors(bank, label_tensor(labels),
                                   {.k = k, .temperature = temperature});
  const Neighbors found = neighbors.find(queries);
  for (std::int64_t q = 0; q < queries.dim(0); ++q) {
    SCOPED_TRACE(cat("k ", k, ", query ", q));
    const PlainNeighbors plain = plain_neighbors(bank, labels, queries, q, k, temperature);
    ASSERT_EQ(row_of(found.indices, q), plain.indices);
    ASSERT_EQ(row_of(found.ranking, q), plain.ranking);
    for (std::size_t i = 0; i < plain.similarities.size(); ++i) {
      const auto at = q * found.similarities.dim(1) + static_cast<std::int64_t>(i);
      ASSERT_NEAR(element(found.similarities, at), plain.similarities[i], 1e-7);
    }
  }
}

TEST(NearestNeighbors, EqualPlainLoop) {
  const Tensor bank = random_features(700, 37, 1), queries = random_features(30, 37, 2);
  const auto labels = cyclic_labels(700, 11);
  for (const std::int64_t k : {1, 2, 20, 200}) expect_plain(bank, labels, queries, k, 0.07);
  expect_plain(bank, labels, queries, 20, 0.005);
}

// exp(similarity / temperature) would overflow.
TEST(NearestNeighbors, SmallTemperatureLeavesNearestAlone) {
  const Tensor bank = random_features(300, 4, 16), queries = random_features(20, 4, 17);
  const auto labels = cyclic_labels(300, 6);
  const Neighbors found =
      NearestNeighbors(bank, label_tensor(labels), {.k = 20, .temperature = 1e-7}).find(queries);
  for (std::int64_t q = 0; q < 20; ++q) {
    const auto nearest = static_cast<std::size_t>(row_of(found.indices, q)[0]);
    EXPECT_EQ(row_of(found.ranking, q)[0], labels[nearest]);
  }
}

// Several blocks of the bank and of the queries.
TEST(NearestNeighbors, EqualPlainLoopOverBlocks) {
  expect_plain(random_features(8500, 8, 3), cyclic_labels(8500, 7), random_features(515, 8, 4), 20,
               0.07);
}

TEST(NearestNeighbors, AllVoteIfBankIsSmallerThanK) {
  const Tensor bank = random_features(9, 5, 5), queries = random_features(4, 5, 6);
  expect_plain(bank, cyclic_labels(9, 3), queries, 20, 0.07);
  const NearestNeighbors neighbors(bank, label_tensor(cyclic_labels(9, 3)), {.k = 20});
  EXPECT_EQ(neighbors.find(queries).indices.dim(1), 9);
}

// Without its own row, a query has the neighbours of a bank from which the row is removed.
TEST(NearestNeighbors, QueryOfTheBankIsNotItsOwnNeighbour) {
  constexpr std::int64_t kSize = 5000, kClasses = 7;
  const Tensor bank = random_features(kSize, 8, 18);
  bank.slice(4999, 5000).copy_from(bank.slice(3, 4));  // a copy of a row remains
  const auto labels = cyclic_labels(kSize, kClasses);
  const std::vector<std::int64_t> rows{3, 0, 4999, 4096, 17};
  const Tensor queries = Tensor::empty({std::ssize(rows), 8}, DType::kFloat32);
  for (std::int64_t q = 0; q < std::ssize(rows); ++q) {
    const std::int64_t row = rows[static_cast<std::size_t>(q)];
    queries.slice(q, q + 1).copy_from(bank.slice(row, row + 1));
  }
  const NearestNeighbors neighbors(bank, label_tensor(labels));
  const Neighbors found = neighbors.find_others(queries, rows);
  for (std::int64_t q = 0; q < std::ssize(rows); ++q) {
    PlainNeighbors plain = plain_neighbors(bank, labels, queries, q, 21, 0.07);
    ASSERT_EQ(std::erase(plain.indices, rows[static_cast<std::size_t>(q)]), 1u);
    EXPECT_EQ(row_of(found.indices, q), plain.indices) << "query " << q;
    Doubles votes(kClasses);
    for (std::int64_t i = 0; i < 20; ++i) {
      const std::int64_t label = labels[static_cast<std::size_t>(plain.indices[i])];
      votes[static_cast<std::size_t>(label)] +=
          std::exp(element(found.similarities, 20 * q + i) / 0.07);
    }
    EXPECT_EQ(found.vote(q), std::ranges::max_element(votes) - votes.begin()) << "query " << q;
  }
  EXPECT_EQ(row_of(found.indices, 0)[0], 4999) << "the copy is the nearest";
}

TEST(NearestNeighbors, ImageHasAtMostTheOthersAsNeighbours) {
  const Tensor bank = random_features(4, 5, 19);
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  const Neighbors found = NearestNeighbors(bank, label_tensor({0, 1, 0, 1})).find_others(bank, all);
  ASSERT_EQ(found.indices.dim(1), 3);
  for (std::int64_t q = 0; q < 4; ++q) {
    std::vector<std::int64_t> others = row_of(found.indices, q);
    others.push_back(q);
    std::ranges::sort(others);
    EXPECT_EQ(others, all);
  }
  const std::vector<std::int64_t> first{0};
  const NearestNeighbors alone(bank.slice(0, 1), label_tensor({0}));
  EXPECT_THROW(alone.find_others(bank.slice(0, 1), first), DataError);
}

TEST(NearestNeighbors, LabelsChangeOnlyTheVote) {
  const Tensor bank = random_features(300, 6, 20), queries = random_features(10, 6, 21);
  const Neighbors labelled =
      NearestNeighbors(bank, label_tensor(cyclic_labels(300, 4))).find(queries);
  const NearestNeighbors unlabelled(bank, Tensor());
  EXPECT_EQ(unlabelled.classes(), 0);
  const Neighbors found = unlabelled.find(queries);
  for (std::int64_t q = 0; q < 10; ++q) {
    EXPECT_EQ(row_of(found.indices, q), row_of(labelled.indices, q));
    EXPECT_TRUE(labelled.vote(q));
    EXPECT_FALSE(found.vote(q));
  }
}

// Similarities between 0.9999 and 1, many of them closer than the rounding of a float32 product.
TEST(NearestNeighbors, CrowdedFeaturesKeepTheirExactOrder) {
  const Tensor bank = random_features(3000, 96, 7, 0.003, 1);
  const Tensor queries = random_features(20, 96, 8, 0.003, 1);
  const PlainNeighbors plain =
      plain_neighbors(bank, cyclic_labels(3000, 10), queries, 0, 3000, 0.07);
  ASSERT_GT(plain.similarities.back(), 0.9999);
  expect_plain(bank, cyclic_labels(3000, 10), queries, 20, 0.07);
}

// Copies of a row lie in different blocks and at different places of a tile of the product.
TEST(NearestNeighbors, EqualRowsComeInTheOrderOfTheBank) {
  Tensor bank = random_features(9000, 33, 9);
  const std::vector<std::int64_t> places = {8997, 3, 4095, 4096, 130};
  const Tensor copied = bank.slice(17, 18).clone();
  for (std::int64_t i : places) bank.slice(i, i + 1).copy_from(copied);
  const NearestNeighbors neighbors(bank, label_tensor(cyclic_labels(9000, 4)), {.k = 4});
  const Neighbors found = neighbors.find(copied);
  EXPECT_EQ(row_of(found.indices, 0), (std::vector<std::int64_t>{3, 17, 130, 4095}));
}

TEST(NearestNeighbors, EqualVotesPreferTheLowerClass) {
  const Tensor bank = from_doubles({0, 1, 1, 0, 0, 1, 1, 0}, {4, 2}, DType::kFloat32);
  const NearestNeighbors neighbors(bank, label_tensor({6, 2, 6, 2}), {.k = 4});
  const Neighbors found = neighbors.find(from_doubles({1, 1, 3, 3}, {2, 2}, DType::kFloat32));
  // Classes without a vote follow in their order.
  EXPECT_EQ(row_of(found.ranking, 0), (std::vector<std::int64_t>{2, 6, 0, 1, 3}));
  const Metrics metrics = accuracy_of(hits_of(found, label_tensor({6, 4})));
  EXPECT_EQ(metrics.at("top1"), 0);
  EXPECT_EQ(metrics.at("top5"), 50);
}

TEST(NearestNeighbors, LengthOfFeaturesHasNoEffect) {
  const Tensor bank = random_features(50, 6, 10);
  Tensor longer = bank.clone();
  for (std::int64_t i = 0; i < longer.numel(); ++i) longer.data<float>()[i] *= 1024;
  const Tensor queries = random_features(5, 6, 11);
  const Tensor labels = label_tensor(cyclic_labels(50, 3));
  const Neighbors a = NearestNeighbors(bank, labels).find(queries);
  const Neighbors b = NearestNeighbors(longer, labels).find(queries);
  EXPECT_EQ(doubles(a.similarities), doubles(b.similarities));
}

TEST(NearestNeighbors, SameBitsForAnyNumberOfThreads) {
  const Tensor bank = random_features(5000, 24, 12), queries = random_features(600, 24, 13);
  const NearestNeighbors neighbors(bank, label_tensor(cyclic_labels(5000, 9)));
  std::vector<Neighbors> results;
  const int before = max_threads();
  for (int threads : kThreadCounts) {
    set_num_threads(threads);
    results.push_back(neighbors.find(queries));
  }
  set_num_threads(before);
  for (const Neighbors& other : results) {
    EXPECT_EQ(doubles(other.similarities), doubles(results[0].similarities));
    EXPECT_TRUE(std::ranges::equal(other.indices.values<std::int64_t>(),
                                   results[0].indices.values<std::int64_t>()));
  }
}

TEST(NearestNeighbors, RefusesFeaturesThatAreNotFinite) {
  Tensor bank = random_features(5, 3, 14);
  const Tensor labels = label_tensor({0, 1, 0, 1, 0}), queries = random_features(2, 3, 15);
  Tensor broken = queries.clone();
  broken.data<float>()[4] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(NearestNeighbors(bank, labels).find(broken), DataError);
  bank.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(NearestNeighbors(bank, labels), DataError);
  EXPECT_THROW(NearestNeighbors(Tensor::empty({0, 3}, DType::kFloat32), label_tensor({})),
               DataError);
}

// A feature of zeros has the similarity 0 to all others, as with a floored norm.
TEST(NearestNeighbors, ZeroFeatureIsLikeNoOther) {
  const Tensor bank = from_doubles({0, 0, -1, 0, 1, 0}, {3, 2}, DType::kFloat32);
  const NearestNeighbors neighbors(bank, label_tensor({0, 1, 2}), {.k = 3});
  const Neighbors found = neighbors.find(from_doubles({2, 0}, {1, 2}, DType::kFloat32));
  EXPECT_EQ(row_of(found.indices, 0), (std::vector<std::int64_t>{2, 0, 1}));
  EXPECT_EQ(doubles(found.similarities), (Doubles{1, 0, -1}));
}

}  // namespace
}  // namespace dtn::test
