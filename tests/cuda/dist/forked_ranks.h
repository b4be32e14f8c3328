// Ranks as processes, forked before the first CUDA call because CUDA state does not survive a fork.
// A failed expectation, an exception or a crash of any rank fails the test.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "dist/device_transport.h"

namespace dtn::test {

constexpr int kRankSkips = 77;

// Passes bytes of rank 0 to the other ranks through shared memory.
class SharedBytes {
 public:
  SharedBytes() {
    void* memory =
        mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error("no shared memory");
    memory_ = static_cast<Memory*>(memory);
  }
  ~SharedBytes() { munmap(memory_, sizeof(Memory)); }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  ShareBytes function(int rank) {
    return [this, rank, call = 0](std::byte* data, std::size_t bytes) mutable {
      DTN_CHECK(call < kMaxCalls && bytes <= kMaxBytes, "too many bytes");
      std::byte* shared = memory_->data[call++];
      if (rank == 0) {
        std::memcpy(shared, data, bytes);
        memory_->calls = call;
      }
      while (memory_->calls < call) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::memcpy(data, shared, bytes);
    };
  }

 private:
  static constexpr int kMaxCalls = 4, kMaxBytes = 1024;
  struct Memory {
    std::atomic<int> calls;  // calls made by rank 0
    std::byte data[kMaxCalls][kMaxBytes];
  };
  Memory* memory_;
};

inline int run_in_child(const std::function<void()>& body) {
  int status = 0;
  try {
    body();
    status = ::testing::Test::HasFailure() ? 1 : ::testing::Test::IsSkipped() ? kRankSkips : 0;
  } catch (const std::exception& error) {
    std::printf("a rank failed: %s\n", error.what());
    status = 1;
  }
  std::fflush(nullptr);
  return status;
}

// Runs `body` in one process per rank and returns the waitpid status of each rank. After a failure
// the other ranks get 10 s more, then they are killed.
inline std::vector<int> fork_ranks(
    int size, const std::function<void(int rank, const ShareBytes& share)>& body) {
  using Clock = std::chrono::steady_clock;
  SharedBytes bytes;
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t process = fork();
    if (process == 0) _exit(run_in_child([&] { body(rank, bytes.function(rank)); }));
    processes.push_back(process);
  }
  std::vector<int> ends(processes.size(), -1);
  Clock::time_point last = Clock::now() + std::chrono::seconds(150);
  for (int left = size; left > 0;) {
    for (std::size_t r = 0; r < processes.size(); ++r) {
      if (ends[r] >= 0 || waitpid(processes[r], &ends[r], WNOHANG) != processes[r]) continue;
      --left;
      if (ends[r] != 0) last = std::min(last, Clock::now() + std::chrono::seconds(10));
    }
    if (left > 0 && Clock::now() > last) {
      for (std::size_t r = 0; r < processes.size(); ++r) {
        if (ends[r] < 0) kill(processes[r], SIGKILL);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return ends;
}

// Runs `body` on each rank and expects that each rank succeeds. Skips the test if a rank skips.
inline void with_forked_ranks(int size,
                              const std::function<void(int rank, const ShareBytes& share)>& body) {
  const std::vector<int> ends = fork_ranks(size, body);
  for (std::size_t r = 0; r < ends.size(); ++r) {
    if (WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == kRankSkips) GTEST_SKIP();
    EXPECT_TRUE(WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == 0)
        << "rank " << r << " of " << size << " ended with " << ends[r];
  }
}

}  // namespace dtn::test
