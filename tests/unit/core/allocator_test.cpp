#include "core/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "core/queue.h"
#include "core/scratch.h"
#include "dtn/core/check.h"

#if defined(DTN_SANITIZED)
// Makes impossible sizes return null, as without the sanitizer.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace dtn {
namespace {

// A size that no other test requests.
constexpr std::size_t kOdd = 1234567;
constexpr std::size_t kRounded = (kOdd + 63) / 64 * 64;

TEST(Allocator, ReusesCachedBlock) {
  release_cached_memory();
  AllocatorStats before = allocator_stats();
  std::byte* first = allocate_cached(kOdd).get();  // returned at once
  AllocatorStats after = allocator_stats();
  EXPECT_EQ(after.misses, before.misses + 1);
  EXPECT_EQ(after.bytes_cached, before.bytes_cached + kRounded);
  for (int step = 0; step < 10; ++step) EXPECT_EQ(allocate_cached(kOdd).get(), first);
  EXPECT_EQ(allocator_stats().misses, after.misses);
  auto a = allocate_cached(kOdd), b = allocate_cached(kOdd);
  EXPECT_NE(a, b);
  EXPECT_EQ(allocator_stats().misses, after.misses + 1);
}

TEST(Allocator, MemoryIsAlignedAndWritable) {
  for (std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{65}, kOdd}) {
    auto p = allocate_cached(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.get()) % 64, 0u);
    std::memset(p.get(), 1, bytes);
  }
}

TEST(Allocator, CountsBytesInUseAndPeak) {
  reset_peak_bytes();
  const std::size_t start = allocator_stats().bytes_in_use;
  EXPECT_EQ(allocator_stats().peak_bytes, start);
  {
    auto a = allocate_cached(kOdd);
    { auto b = allocate_cached(kOdd); }
    auto c = allocate_cached(100);
    EXPECT_EQ(allocator_stats().bytes_in_use, start + kRounded + 128);
  }
  EXPECT_EQ(allocator_stats().bytes_in_use, start);
  EXPECT_EQ(allocator_stats().peak_bytes, start + 2 * kRounded);
  reset_peak_bytes();
  EXPECT_EQ(allocator_stats().peak_bytes, start);
}

TEST(Allocator, ReleaseFreesCache) {
  { auto a = allocate_cached(kOdd); }
  EXPECT_GE(allocator_stats().bytes_cached, kRounded);
  release_cached_memory();
  EXPECT_EQ(allocator_stats().bytes_cached, 0u);
  std::uint64_t misses = allocator_stats().misses;
  { auto a = allocate_cached(kOdd); }
  EXPECT_EQ(allocator_stats().misses, misses + 1);
}

TEST(Allocator, ReusesSlightlyLargerBlock) {
  release_cached_memory();
  std::byte* block = allocate_cached(kOdd).get();
  const std::uint64_t misses = allocator_stats().misses;
  {
    auto less = allocate_cached(kRounded / 5 * 4 + 64);
    EXPECT_EQ(less.get(), block);
    EXPECT_EQ(allocator_stats().bytes_cached, 0u);  // the remainder is not reused
  }
  EXPECT_EQ(allocate_cached(kOdd).get(), block);  // the complete block again
  EXPECT_EQ(allocator_stats().misses, misses);
}

TEST(Allocator, ChoosesBestFit) {
  release_cached_memory();
  std::byte *large, *small;
  {
    auto a = allocate_cached(kOdd / 5 * 6), b = allocate_cached(kOdd);
    large = a.get(), small = b.get();
  }
  auto fitting = allocate_cached(kOdd), other = allocate_cached(kOdd);
  EXPECT_EQ(fitting.get(), small);
  EXPECT_EQ(other.get(), large);
}

// A step on sequences of `tokens` tokens: ten activations, and one that is four times as wide.
void step_on(std::size_t tokens) {
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 10; ++i) held.push_back(allocate_cached(tokens << 14));
  auto wide = allocate_cached(4 * tokens << 14);
}

TEST(Allocator, VaryingLengthsHoldLittleMoreThanLongest) {
  release_cached_memory();
  reset_peak_bytes();
  const std::size_t start = allocator_stats().bytes_in_use;
  std::size_t tokens = 1, most_held = 0, longest = 0;
  std::uint64_t late_misses = 0;
  for (int step = 0; step < 1000; ++step) {
    tokens = tokens * 7 % 101;  // each of 1 to 100 once in 100 steps
    const std::uint64_t before = allocator_stats().misses;
    step_on(100 + tokens);
    const AllocatorStats now = allocator_stats();
    if (step >= 100) late_misses += now.misses - before;
    longest = std::max(longest, now.peak_bytes - start);
    most_held = std::max(most_held, now.bytes_in_use - start + now.bytes_cached);
  }
  EXPECT_EQ(longest, std::size_t{200} * 14 << 14);
  EXPECT_LE(most_held, 2 * longest);  // separate blocks for all lengths: 75 times as much
  EXPECT_LE(late_misses, 900u);       // of 9900 requests
}

TEST(Allocator, GrowingSizesLeaveLittleCached) {
  release_cached_memory();
  for (std::size_t tokens = 20; tokens <= 400; ++tokens) {
    step_on(tokens);
    // Steps of other tests have up to 200 tokens. All sizes together need up to 180 times as much.
    ASSERT_LE(allocator_stats().bytes_cached, 4 * std::max<std::size_t>(tokens, 200) * 14 << 14);
  }
}

TEST(Allocator, ErrorNamesImpossibleSize) {
  AllocatorStats before = allocator_stats();
  EXPECT_THROW(allocate_cached(SIZE_MAX), Error);
  EXPECT_THROW(allocate_cached(SIZE_MAX - 64), Error);
  try {
    allocate_cached(std::size_t{1} << 62);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("4294967296.00 GiB"), std::string::npos) << e.what();
  }
  EXPECT_EQ(allocator_stats().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(allocator_stats().peak_bytes, before.peak_bytes);
}

TEST(Allocator, ServesManyThreads) {
  const std::size_t start = allocator_stats().bytes_in_use;
  std::vector<std::thread> threads;
  std::vector<int> damaged(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &damaged] {
      for (std::size_t i = 0; i < 2000; ++i) {
        std::size_t size = 64 * (1 + i % 5);
        auto p = allocate_cached(size);
        std::memset(p.get(), t, size);
        for (std::size_t k = 0; k < size; ++k)
          damaged[t] += p.get()[k] != static_cast<std::byte>(t);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(damaged, std::vector<int>(4, 0));
  EXPECT_EQ(allocator_stats().bytes_in_use, start);
}

TEST(Scratch, ScopesNestAndReturnMemory) {
  Scratch scratch;
  float *outer, *inner;
  {
    Scratch::Scope a(scratch);
    outer = a.take<float>(100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(outer) % 64, 0u);
    outer[99] = 5;
    {
      Scratch::Scope b(scratch);
      inner = b.take<float>(3);
      EXPECT_GE(inner, outer + 100);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(inner) % 64, 0u);
    }
    EXPECT_EQ(a.take<float>(3), inner);
    EXPECT_EQ(outer[99], 5);
  }
  Scratch::Scope c(scratch);
  EXPECT_EQ(c.take<float>(1), outer);
}

TEST(Scratch, GrowsOnceAndKeepsBlocksValid) {
  Scratch scratch;
  auto step = [&] {
    Scratch::Scope scope(scratch);
    std::vector<char*> blocks;
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(scope.take<char>(300000));
      std::memset(blocks.back(), i, 300000);
    }
    char* large = scope.take<char>(5 << 20);
    std::memset(large, 77, 5 << 20);
    int damaged = 0;
    for (int i = 0; i < 20; ++i) damaged += blocks[i][0] != i || blocks[i][299999] != i;
    EXPECT_EQ(damaged, 0);
    return std::set<char*>(blocks.begin(), blocks.end()).size();
  };
  EXPECT_EQ(step(), 20u);
  std::uint64_t misses = allocator_stats().misses;
  std::size_t in_use = allocator_stats().bytes_in_use;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(), 20u);
  EXPECT_EQ(allocator_stats().misses, misses);
  EXPECT_EQ(allocator_stats().bytes_in_use, in_use);
}

TEST(Scratch, ExceptionReturnsMemoryOfScope) {
  Scratch scratch;
  char* first;
  {
    Scratch::Scope a(scratch);
    first = a.take<char>(1000);
  }
  try {
    Scratch::Scope b(scratch);
    b.take<char>(1000);
    throw Error("left early");
  } catch (const Error&) {
  }
  Scratch::Scope c(scratch);
  EXPECT_EQ(c.take<char>(1), first);
}

TEST(Scratch, EachThreadHasOwnScratch) {
  Scratch* here = &cpu_queue().scratch();
  EXPECT_EQ(here, &cpu_queue().scratch());
  Scratch* there = nullptr;
  std::thread([&] { there = &cpu_queue().scratch(); }).join();
  EXPECT_NE(here, there);
}

}  // namespace
}  // namespace dtn
