#include "data/feed/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "core/allocator.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"
#include "epoch_order.h"
#include "loader_fixtures.h"
#include "transform_runs.h"

namespace dtn {
namespace {

using namespace dtn::test;

TEST(EpochOrder, IsPermutationPerSeedAndEpoch) {
  std::vector<std::int64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), 0);
  EXPECT_EQ(epoch_order(1, 0, 1000, false), identity);
  auto order = epoch_order(1, 0, 1000, true);
  EXPECT_NE(order, identity);
  EXPECT_EQ(order, epoch_order(1, 0, 1000, true));
  EXPECT_NE(order, epoch_order(2, 0, 1000, true));
  EXPECT_NE(order, epoch_order(1, 1, 1000, true));
  EXPECT_NE(order, epoch_order(1, 0, 1000, true, 1));
  std::ranges::sort(order);
  EXPECT_EQ(order, identity);
  EXPECT_TRUE(epoch_order(1, 0, 0, true).empty());
  EXPECT_EQ(epoch_order(1, 0, 1, true), std::vector<std::int64_t>{0});
}

TEST(EpochOrder, IsUniform) {
  constexpr int n = 8, epochs = 8000;
  double count[n][n] = {};
  double pairs = 0;  // epochs with 0 before 1
  for (int e = 0; e < epochs; ++e) {
    auto order = epoch_order(7, e, n, true);
    for (std::size_t i = 0; i < n; ++i) ++count[order[i]][i];
    pairs += std::ranges::find(order, 0) < std::ranges::find(order, 1);
  }
  double chi2 = 0;
  for (auto& row : count) {
    for (double c : row) chi2 += (c - epochs / n) * (c - epochs / n) / (epochs / n);
  }
  // (n-1)^2 degrees of freedom, with a deviation of sqrt(2 dof).
  EXPECT_LT(chi2, 49 + 5 * 9.9);
  EXPECT_GT(chi2, 49 - 4.5 * 9.9);
  EXPECT_NEAR(pairs, epochs / 2, 5 * std::sqrt(epochs / 4.0));
}

TEST(Loader, BatchesDoNotDependOnWorkers) {
  auto set = std::make_shared<FakeDataset>(43);
  LoaderOptions options = training(0);
  options.repeats = 2;
  auto expected = epoch(set, options, 3);
  ASSERT_EQ(expected.size(), 86u / 4);
  std::set<std::vector<float>> distinct;
  for (const Record& r : expected) distinct.insert(r.pixels);
  EXPECT_EQ(distinct.size(), expected.size());
  for (int workers : {1, 2, 4, 16}) {
    options.workers = workers;
    EXPECT_TRUE(epoch(set, options, 3) == expected) << workers << " workers";
  }
  EXPECT_FALSE(epoch(set, options, 4) == expected);
}

TEST(Loader, NumberOfWorkersComesFromConfigOrDevice) {
  const int threads = max_threads();
  DataConfig data;
  for (auto [cores, expected] : {std::pair{1, 2}, {2, 2}, {8, 7}, {256, 32}}) {
    set_num_threads(cores);
    EXPECT_EQ(workers_of(data, kCpu), 2);
    EXPECT_EQ(workers_of(data, kCuda), expected) << cores << " cores";
  }
  set_num_threads(threads);
  for (int workers : {0, 1, 100}) {
    data.workers = workers;
    EXPECT_EQ(workers_of(data, kCpu), workers);
    EXPECT_EQ(workers_of(data, kCuda), workers);
  }
}

TEST(Loader, ResumesAtAnyBatch) {
  auto set = std::make_shared<FakeDataset>(21);
  auto expected = epoch(set, training(0), 5);
  for (int workers : {0, 3}) {
    for (std::int64_t first = 0; first <= 5; ++first) {
      auto rest = epoch(set, training(workers), 5, first);
      EXPECT_TRUE(rest == std::vector<Record>(expected.begin() + first, expected.end()))
          << "from " << first << ", " << workers << " workers";
    }
  }
}

TEST(Loader, StartAbandonsRunningEpoch) {
  auto set = std::make_shared<FakeDataset>(64);
  auto expected = epoch(set, training(0), 1);
  for (int workers : {0, 1, 4}) {
    Loader loader(samples(set, make_transform()), training(workers));
    Batch batch;
    for (int taken = 0; taken < 6; ++taken) {
      loader.start(0);
      for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next(batch));
    }
    loader.start(1);
    EXPECT_TRUE(read_all(loader) == expected);
    EXPECT_FALSE(loader.next(batch));
    EXPECT_EQ(batch.n, 0);
  }
}

TEST(Loader, RepeatsUseNewRandomNumbers) {
  auto set = std::make_shared<FakeDataset>(8);
  LoaderOptions options = training(2, 8);
  options.repeats = 2;
  auto batches = epoch(set, options, 0);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_NE(batches[0].indices, batches[1].indices);
  std::size_t each = batches[0].pixels.size() / 8;
  for (std::size_t i = 0; i < 8; ++i) {
    auto j = static_cast<std::size_t>(std::ranges::find(batches[1].indices, batches[0].indices[i]) -
                                      batches[1].indices.begin());
    ASSERT_LT(j, 8u);
    EXPECT_FALSE(std::equal(batches[0].pixels.begin() + static_cast<std::ptrdiff_t>(i * each),
                            batches[0].pixels.begin() + static_cast<std::ptrdiff_t>((i + 1) * each),
                            batches[1].pixels.begin() + static_cast<std::ptrdiff_t>(j * each)));
  }
}

TEST(Loader, EvaluationVisitsAllSamplesInOrder) {
  auto set = std::make_shared<FakeDataset>(10);
  for (int workers : {0, 1, 4}) {
    Loader loader(samples(set, make_transform(false)), evaluation(workers));
    EXPECT_EQ(loader.batches_per_epoch(), 3);
    EXPECT_EQ(loader.samples_per_epoch(), 10);
    loader.start(0);
    auto batches = read_all(loader);
    ASSERT_EQ(batches.size(), 3u);
    EXPECT_EQ(batches[2].indices, (std::vector<std::int64_t>{8, 9}));
    EXPECT_EQ(batches[2].labels, (std::vector<std::int64_t>{1008, 1009}));
    // The pixels are the output of the transform.
    SampleWorkspace sample;
    TransformWorkspace workspace;
    std::vector<float> expected(3 * kSide * kSide);
    test::apply(make_transform(false), *set->load(9, sample).image, {}, workspace, expected.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           batches[2].pixels.begin() + 3 * kSide * kSide));
  }
}

TEST(Loader, TrainingDropsIncompleteBatch) {
  auto set = std::make_shared<FakeDataset>(10);
  Loader loader(samples(set, make_transform()), training(1));
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  EXPECT_EQ(loader.samples_per_epoch(), 8);
  expect_error<DataError>([&] { Loader(samples(set, make_transform()), training(1, 11)); },
                          {"10 images", "batch of 11", "train.batch_size"});
  LoaderOptions twice = training(1, 11);
  twice.repeats = 2;
  EXPECT_EQ(Loader(samples(set, make_transform()), twice).batches_per_epoch(), 1);
  // Evaluation has no such limit.
  auto batches = epoch(set, evaluation(2, 64), 0);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].indices.size(), 10u);
  expect_error<DataError>(
      [&] { Loader(samples(std::make_shared<FakeDataset>(0), make_transform()), evaluation(0)); },
      {"empty", "a fake"});
}

TEST(Loader, TrainingReplacesDamagedImages) {
  auto set = dataset_with_bad(12, {3, 4, 11});
  auto expected = epoch(set, training(0), 0);
  ASSERT_EQ(expected.size(), 3u);
  std::vector<std::int64_t> count(12), indices;
  for (const Record& r : expected) {
    ASSERT_EQ(r.indices.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      ++count[static_cast<std::size_t>(r.indices[i])];
      EXPECT_EQ(r.labels[i], 1000 + r.indices[i]);
    }
  }
  // 5 replaces 3 and 4, and 0 replaces 11.
  EXPECT_EQ(count, (std::vector<std::int64_t>{2, 1, 1, 0, 0, 3, 1, 1, 1, 1, 1, 0}));
  for (int workers : {1, 4}) EXPECT_TRUE(epoch(set, training(workers), 0) == expected);
}

TEST(Loader, ReplacementDoesNotDependOnEarlierDamage) {
  auto set = dataset_with_bad(12, {3, 4, 11});
  auto fresh = epoch(set, training(2), 1);
  Loader loader(samples(set, make_transform()), training(2));
  loader.start(0);
  read_all(loader);
  loader.start(1);
  EXPECT_TRUE(read_all(loader) == fresh);
  LoaderReport report = loader.report();
  EXPECT_EQ(report.bad_images, 3);  // each counted once
  std::ranges::sort(report.bad_names);
  EXPECT_EQ(report.bad_names, (std::vector<std::string>{"fake-11", "fake-3", "fake-4"}));
}

TEST(Loader, EvaluationSkipsDamagedImages) {
  auto set = dataset_with_bad(11, {0, 2, 4, 5, 6, 7, 9});
  for (int workers : {0, 1, 4}) {
    Loader loader(samples(set, make_transform(false)), evaluation(workers));
    for (int pass = 0; pass < 2; ++pass) {
      loader.start(0);
      auto batches = read_all(loader);
      ASSERT_EQ(batches.size(), 2u);  // nothing is left of batch 4 .. 7
      EXPECT_EQ(batches[0].indices, (std::vector<std::int64_t>{1, 3}));
      EXPECT_EQ(batches[0].labels, (std::vector<std::int64_t>{1001, 1003}));
      EXPECT_EQ(batches[1].indices, (std::vector<std::int64_t>{8, 10}));
      EXPECT_EQ(batches[1].number, 2);
      auto good = epoch(std::make_shared<FakeDataset>(11), evaluation(0, 1), 0);
      std::vector<float> expected = good[8].pixels;
      expected.insert(expected.end(), good[10].pixels.begin(), good[10].pixels.end());
      EXPECT_EQ(batches[1].pixels, expected);
      EXPECT_EQ(loader.report().bad_images, 7);
    }
  }
}

TEST(Loader, RejectsTooManyDamagedImages) {
  auto set = dataset_with_bad(40, {20, 21, 22, 23, 24, 25, 26});
  for (int workers : {0, 1, 4}) {
    LoaderOptions options = evaluation(workers);
    options.max_bad_images = 6;
    Loader loader(samples(set, make_transform(false)), options);
    loader.start(0);
    Batch batch;
    // Batches before the damage are complete.
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(loader.next(batch));
    expect_error<DataError>(
        [&] {
          while (loader.next(batch)) continue;
        },
        {"7 damaged images", "allows 6", "is damaged\nThe first:\n  fake-2"});
    // The message names six of the seven. Several workers find them in any order.
    std::vector<std::string> met = loader.report().bad_names;
    if (workers > 1) std::ranges::sort(met);
    ASSERT_EQ(met.size(), 7u);
    for (std::size_t i = 0; i < met.size(); ++i) EXPECT_EQ(met[i], cat("fake-", 20 + i));
  }
  for (int workers : {0, 1, 2}) {
    LoaderOptions none = training(workers);
    none.max_bad_images = 0;
    // A second worker may find another one before the first batch is requested.
    expect_error<DataError>([&] { epoch(set, none, 0); },
                            {workers < 2 ? "1 damaged images" : " damaged images", "allows 0"});
  }
}

TEST(Loader, RejectsDatasetWithAllImagesDamaged) {
  auto set = dataset_with_bad(4, {0, 1, 2, 3});
  for (int workers : {0, 2}) {
    expect_error<DataError>([&] { epoch(set, training(workers), 0); }, {"all images are damaged"});
    EXPECT_TRUE(epoch(set, evaluation(workers), 0).empty());
  }
}

TEST(Loader, ReportsExceptionsInFailingBatch) {
  std::atomic<bool> broken = true;
  auto set = std::make_shared<FakeDataset>(40, [&](std::int64_t i) {
    if (broken && i == 9) throw std::domain_error("nine");
    if (broken && i == 10) throw std::logic_error("ten");
  });
  for (int workers : {0, 1, 4}) {
    broken = true;
    Loader loader(samples(set, make_transform(false)), evaluation(workers));
    loader.start(0);
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    ASSERT_TRUE(loader.next(batch));
    EXPECT_THROW(loader.next(batch), std::domain_error);
    EXPECT_THROW(loader.next(batch), std::domain_error);
    broken = false;
    loader.start(0);
    EXPECT_EQ(read_all(loader).size(), 10u);
  }
}

TEST(Loader, StopsWhileWorkersAreBusy) {
  std::atomic<int> loaded = 0;
  auto slow = std::make_shared<FakeDataset>(10'000, [&](std::int64_t) {
    ++loaded;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  auto begin = std::chrono::steady_clock::now();
  {
    Loader loader(samples(slow, make_transform()), training(4, 1000));
    loader.start(0);
    while (loaded < 8) std::this_thread::yield();
    loader.start(1);  // does not wait for the batch in progress
  }
  { Loader never_started(samples(slow, make_transform()), training(4, 1000)); }
  EXPECT_LT(loaded, 400);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Loader, BoundsPrefetching) {
  std::atomic<int> loaded = 0;
  auto set = std::make_shared<FakeDataset>(1000, [&](std::int64_t) { ++loaded; });
  Loader loader(samples(set, make_transform()), training(2, 10));
  loader.start(0);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const int ahead = 40;  // one batch taken, three made
  for (int i = 0; i < 2000 && loaded < ahead; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(loaded, ahead);
}

TEST(Loader, ReusesBuffers) {
  auto set = std::make_shared<FakeDataset>(400);
  for (int workers : {0, 4}) {
    Loader loader(samples(set, make_transform()), training(workers));
    Batch batch;
    loader.start(0);
    ASSERT_TRUE(loader.next(batch));
    std::uint64_t misses = allocator_stats().misses;
    std::set<const void*> buffers;
    do {
      buffers.insert(batch.fields.at("image").raw());
    } while (loader.next(batch));
    EXPECT_LE(buffers.size(), workers == 0 ? 2u : 4u);
    EXPECT_EQ(allocator_stats().misses, misses);
  }
}

TEST(Loader, DoesNotReuseTensorsInUse) {
  auto set = std::make_shared<FakeDataset>(80);
  auto expected = epoch(set, training(0), 0);
  Loader loader(samples(set, make_transform()), training(4));
  loader.start(0);
  std::vector<Tensor> held;
  Batch batch;
  while (loader.next(batch)) held.push_back(batch.fields.at("image"));
  ASSERT_EQ(held.size(), expected.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(held[i].values<float>(), expected[i].pixels)) << i;
  }
}

TEST(Loader, MeasuresWaitTime) {
  auto slow = std::make_shared<FakeDataset>(
      4, [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  for (int workers : {0, 1}) {
    Loader loader(samples(slow, make_transform(false)), evaluation(workers));
    loader.start(0);
    read_all(loader);
    EXPECT_GT(loader.report().wait_seconds, 0.015);
  }
}

// From files: a damaged JPEG and an empty file among BMPs.
TEST(Loader, SkipsDamagedFiles) {
  TempFolder dir;
  for (int i = 0; i < 8; ++i) {
    write_bytes(dir.path() / "val" / (i < 4 ? "a" : "b") / cat(i, ".bmp"),
                bmp_file(9, 8, noise(9 * 8 * 3, static_cast<std::uint32_t>(i))));
  }
  write_bytes(dir.path() / "val/a/2.jpg", {0xff, 0xd8, 0xff, 0xe0, 1, 2, 3});
  write_bytes(dir.path() / "val/b/empty.png", {});
  DataConfig data;
  data.root = dir.string();
  ModelConfig model;
  model.num_classes = 2;
  std::shared_ptr<Dataset> set = open_dataset(data, model, Split::kVal, 0);
  ASSERT_EQ(set->size(), 10);
  std::vector<Record> expected;
  for (int workers : {0, 2}) {
    Loader loader(samples(set, make_transform(false)), evaluation(workers, 5));
    loader.start(0);
    auto batches = read_all(loader);
    std::int64_t n = 0;
    for (const Record& r : batches) n += static_cast<std::int64_t>(r.indices.size());
    EXPECT_EQ(n, 8);
    auto names = loader.report().bad_names;
    std::ranges::sort(names);
    ASSERT_EQ(names.size(), 2u);
    EXPECT_TRUE(names[0].ends_with("val/a/2.jpg"));
    EXPECT_TRUE(names[1].ends_with("val/b/empty.png"));
    if (workers > 0) {
      EXPECT_TRUE(batches == expected);
    }
    expected = batches;
  }
}

}  // namespace
}  // namespace dtn
