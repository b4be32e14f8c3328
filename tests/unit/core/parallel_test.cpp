#include "dtn/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtn/core/check.h"
#include "dtn/core/denormals.h"

namespace dtn {
namespace {

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(saved_); }
  int saved_ = max_threads();
};
INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(Parallel, EachItemRunsOnce) {
  EXPECT_EQ(max_threads(), GetParam());
  for (std::int64_t n : {-1, 0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> runs(1000);
    parallel_for(n, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
    for (std::int64_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(runs[static_cast<std::size_t>(i)], i < n ? 1 : 0) << i;
    }
  }
}

TEST_P(Parallel, RangesCoverAllItemsAndDependOnGrainOnly) {
  for (std::int64_t n : {0, 1, 15, 16, 17, 1000}) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges(100, {-1, -1});
    parallel_ranges(n, 16, [&](std::int64_t begin, std::int64_t end) {
      ranges[static_cast<std::size_t>(begin / 16)] = {begin, end};
    });
    for (std::int64_t i = 0; i < 100; ++i) {
      std::pair<std::int64_t, std::int64_t> expected{-1, -1};
      if (16 * i < n) expected = {16 * i, std::min(n, 16 * i + 16)};
      ASSERT_EQ(ranges[static_cast<std::size_t>(i)], expected) << "n " << n << " range " << i;
    }
  }
}

TEST_P(Parallel, ExceptionReachesCaller) {
  for (std::int64_t n : {1, 2, 100}) {
    try {
      parallel_for(n, [&](std::int64_t i) {
        if (i == n / 2) throw DataError("item " + std::to_string(i));
      });
      FAIL() << "no error";
    } catch (const DataError& e) {
      EXPECT_EQ(e.what(), "item " + std::to_string(n / 2));
    }
  }
  EXPECT_THROW(parallel_for(50, [](std::int64_t) { throw Error("all of them"); }), Error);
  std::atomic<int> runs = 0;  // the next loop works
  parallel_for(50, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 50);
}

TEST_P(Parallel, NestedLoopRunsOnCallingThread) {
  std::atomic<int> runs = 0, strangers = 0;
  parallel_for(6, [&](std::int64_t) {
    int outer = omp_get_thread_num();
    bool in_parallel = omp_in_parallel();
    parallel_for(10, [&](std::int64_t) {
      ++runs;
      if (in_parallel && omp_get_thread_num() != outer) ++strangers;
    });
  });
  EXPECT_EQ(runs, 60);
  EXPECT_EQ(strangers, 0);
}

#if defined(__x86_64__) || defined(__aarch64__)
// The denormal mode of this thread: flushes denormal operands and denormal results to 0.
struct Flushes {
  bool operands, results;
  Flushes() {
    volatile float denormal = std::numeric_limits<float>::denorm_min();
    volatile float smallest = std::numeric_limits<float>::min(), half = 0.5f, many = 0x1p30f;
    operands = denormal * many == 0;
    results = smallest * half * many == 0;
  }
  bool both() const { return operands && results; }
  bool neither() const { return !operands && !results; }
};

// Number of threads in a user's OpenMP loop that flush denormals.
int flushing_threads() {
  int count = 0;
#pragma omp parallel reduction(+ : count)
  count += !Flushes().neither();
  return count;
}

TEST_P(Parallel, FlushesDenormalsInsideAndRestoresOutside) {
  ASSERT_TRUE(Flushes().neither());
  for (std::int64_t n : {1, 100}) {
    std::atomic<int> flushed = 0, inside = 0;
    parallel_for(n, [&](std::int64_t) {
      flushed += Flushes().both();
      parallel_for(2, [&](std::int64_t) { inside += Flushes().both(); });
      flushed += Flushes().both();  // the inner loop did not end it
    });
    EXPECT_EQ(flushed, 2 * n);
    EXPECT_EQ(inside, 2 * n);
    EXPECT_TRUE(Flushes().neither());
    EXPECT_EQ(flushing_threads(), 0);
  }
  EXPECT_THROW(parallel_for(50, [](std::int64_t) { throw Error("all of them"); }), Error);
  EXPECT_TRUE(Flushes().neither());
  EXPECT_EQ(flushing_threads(), 0);
}

TEST_P(Parallel, LaterThreadsFlushDenormals) {
  parallel_for(100, [](std::int64_t) {});
  set_num_threads(GetParam() + 3);
  std::atomic<int> flushed = 0;
  parallel_for(1000, [&](std::int64_t) { flushed += Flushes().both(); });
  EXPECT_EQ(flushed, 1000);
}

// OpenMP creates its threads here, during a kernel's work on the calling thread.
TEST_P(Parallel, ThreadsCreatedInsideDoNotFlushOutside) {
  set_num_threads(GetParam() + 11);
  {
    FlushDenormals flush;
    std::atomic<int> flushed = 0;
    parallel_for(1000, [&](std::int64_t) { flushed += Flushes().both(); });
    EXPECT_EQ(flushed, 1000);
    EXPECT_TRUE(Flushes().both());
  }
  EXPECT_EQ(flushing_threads(), 0);
}

TEST(Denormals, KeepsFlushingIfCallerFlushes) {
  FlushDenormals flush;
  parallel_for(1, [](std::int64_t) {});
  { FlushDenormals again; }
  EXPECT_TRUE(Flushes().both());
}

TEST(Denormals, KeepsFloatingPointExceptions) {
  std::feclearexcept(FE_ALL_EXCEPT);
  {
    FlushDenormals flush;
    volatile float zero = 0, one = 1;
    volatile float infinite = one / zero;
    EXPECT_GT(infinite, 0);
  }
  EXPECT_TRUE(std::fetestexcept(FE_DIVBYZERO));
  std::feclearexcept(FE_ALL_EXCEPT);
}
#endif

TEST(ParallelSettings, RequireAtLeastOneThread) {
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(-3), Error);
}

TEST(Check, MessageNamesReasonAndPlace) {
  try {
    DTN_CHECK(1 + 1 == 3, "two and ", 2, " make four");
    FAIL() << "no error";
  } catch (const Error& e) {
    std::string text = e.what();
    EXPECT_NE(text.find("two and 2 make four"), std::string::npos) << text;
    EXPECT_NE(text.find("parallel_test.cpp:"), std::string::npos) << text;
  }
  EXPECT_NO_THROW(DTN_CHECK(true, "fine"));
}

}  // namespace
}  // namespace dtn
