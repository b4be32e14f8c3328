// Faults around the loader's threads: each is reported in its place, and nothing waits forever.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <random>
#include <system_error>
#include <thread>

#include "core/allocator.h"
#include "loader_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;

TEST(LoaderFaults, WorkersSurviveAnyException) {
  std::atomic<int> kind = 0;
  auto set = std::make_shared<FakeDataset>(40, [&](std::int64_t i) {
    if (i < 9) return;
    if (kind == 0) throw std::bad_alloc();
    if (kind == 1) throw 42;
  });
  const auto expected = epoch(std::make_shared<FakeDataset>(40), evaluation(0), 0);
  for (int workers : {0, 1, 4}) {
    Loader loader(samples(set, make_transform(false)), evaluation(workers));
    Batch batch;
    for (kind = 0; kind < 2; ++kind) {
      loader.start(0);
      ASSERT_TRUE(loader.next(batch) && loader.next(batch));
      if (kind == 0) {
        EXPECT_THROW(loader.next(batch), std::bad_alloc);
      } else {
        EXPECT_THROW(loader.next(batch), int);
      }
    }
    loader.start(0);
    EXPECT_TRUE(read_all(loader) == expected);
  }
}

// An allocation may fail between two tensors of a batch; the batch must not be lost.
TEST(LoaderFaults, BatchSurvivesFailedAllocation) {
  const auto set = std::make_shared<FakeDataset>(40);
  const auto expected = epoch(set, evaluation(0), 0);
  for (int workers : {0, 2}) {
    int left = 1 << 20;
    LoaderOptions options = evaluation(workers);
    options.allocate = [&](std::size_t bytes) {
      if (left-- == 0) throw std::bad_alloc();
      return allocate_cached(bytes);
    };
    Loader loader(samples(set, make_transform(false)), options);
    loader.start(0);
    Batch batch;
    for (int fails = 0; fails < 2; ++fails) {  // at the images, then at the labels
      batch = {};
      left = fails;
      EXPECT_THROW(loader.next(batch), std::bad_alloc);
    }
    EXPECT_TRUE(read_all(loader) == expected);
  }
}

// Makes the creation of threads fail: the default stack is as large as the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    refused_ = pthread_setattr_default_np(&huge) == 0;
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  bool refused() const { return refused_; }

 private:
  pthread_attr_t before_;
  bool refused_ = false;
};

TEST(LoaderFaults, WorksWithoutThreads) {
  const auto set = std::make_shared<FakeDataset>(43);
  const auto expected = epoch(set, training(0), 1);
  std::optional<Loader> loader;
  {
    const NoThreads none;
    ASSERT_TRUE(none.refused());
    ASSERT_THROW(std::thread([] {}).join(), std::system_error);
    loader.emplace(samples(set, make_transform()), training(4));
  }
  loader->start(1);
  EXPECT_FALSE(loader->has_ready());
  EXPECT_TRUE(read_all(*loader) == expected);
}

// Epochs are started, abandoned and finished in any order, with failures at any time. The data is
// correct, and everything ends.
TEST(LoaderFaults, SurvivesAnyOrderOfEvents) {
  std::atomic<int> until_failure = -1;
  auto set = std::make_shared<FakeDataset>(37, [&](std::int64_t) {
    if (until_failure.load() >= 0 && until_failure-- == 0) throw std::bad_alloc();
    std::this_thread::yield();
  });
  const auto expected = epoch(std::make_shared<FakeDataset>(37), training(0), 6);
  std::mt19937 random(1);
  const auto draw = [&](std::size_t n) { return random() % n; };
  int failures = 0;
  for (int life = 0; life < 60; ++life) {
    until_failure = -1;
    Loader loader(samples(set, make_transform()), training(static_cast<int>(draw(5))));
    for (std::size_t starts = draw(4); starts > 0; --starts) {
      const auto first = static_cast<std::int64_t>(draw(10));
      loader.start(6, first);
      if (draw(2)) until_failure = static_cast<int>(draw(30));
      Batch batch;
      std::size_t at = static_cast<std::size_t>(first);
      for (std::size_t takes = draw(12); takes > 0; --takes) {
        try {
          if (!loader.next(batch)) break;
          ASSERT_TRUE(record(batch) == expected[at++]);
        } catch (const std::bad_alloc&) {
          ++failures;
        }
      }
      loader.has_ready();
    }
  }
  EXPECT_GT(failures, 5);
}

}  // namespace
}  // namespace dtn
