#include "meeting.h"

#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

namespace emu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(120);

[[noreturn]] void give_up(int rank, const std::string& why) {
  std::fprintf(stderr, "emulated NCCL, rank %d: %s\n", rank, why.c_str());
  std::abort();
}

void wait_until(int rank, const char* what, const std::function<bool()>& there) {
  const Clock::time_point end = Clock::now() + kPatience;
  for (int i = 0; !there(); ++i) {
    if (i < 100) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (Clock::now() > end) give_up(rank, std::string("waited two minutes for ") + what);
  }
}

}  // namespace

// Starts as zeros, like new shared memory.
struct Meeting::Shared {
  std::atomic<int> joined;
  std::atomic<std::uint64_t> arrivals;  // at points where all ranks wait for each other
  struct Rank {
    std::atomic<std::uint64_t> waits, begun;
    std::atomic<bool> left;
    int device;
    Collective call;
  } ranks[kMaxRanks];
};

Meeting::Meeting(const std::string& name, int size, int rank) : size_(size), rank_(rank) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  static_assert(sizeof(Shared) <= kSlotBytes);
  bytes_ = static_cast<std::size_t>(size + 1) * kSlotBytes;
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) {
    give_up(rank, "no shared memory");
  }
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) give_up(rank, "no shared memory");
  shared_ = static_cast<Shared*>(memory);
  shared_->ranks[rank].device = current_device();
  ++shared_->joined;
  wait_until(rank, "all ranks to join", [&] { return shared_->joined == size_; });
  if (rank == 0) shm_unlink(name.c_str());
}

Meeting::~Meeting() { munmap(shared_, bytes_); }

int Meeting::device_of(int rank) const { return shared_->ranks[rank].device; }

std::byte* Meeting::slot(int rank) const {
  return reinterpret_cast<std::byte*>(shared_) + static_cast<std::size_t>(rank + 1) * kSlotBytes;
}

bool Meeting::begin(const Collective& call) {
  Shared::Rank& own = shared_->ranks[rank_];
  own.call = call;
  ++own.begun;
  if (!wait()) return false;
  for (int r = 0; r < size_; ++r) {
    if (!(shared_->ranks[r].call == call)) {
      give_up(rank_, "rank " + std::to_string(r) + " asks for another collective: " +
                         std::to_string(shared_->ranks[r].call.bytes) + " bytes, here " +
                         std::to_string(call.bytes));
    }
  }
  return true;
}

bool Meeting::wait() {
  const std::uint64_t all = ++shared_->ranks[rank_].waits * static_cast<std::uint64_t>(size_);
  ++shared_->arrivals;
  bool here = false;
  wait_until(rank_, "the other ranks to come to a collective", [&] {
    bool left = false;  // read first: a rank may arrive and leave at once
    for (int r = 0; r < size_; ++r) left |= shared_->ranks[r].left;
    here = shared_->arrivals >= all;
    return here || left;
  });
  return here;
}

bool Meeting::is_awaited() const {
  for (int r = 0; r < size_; ++r) {
    if (shared_->ranks[r].begun > shared_->ranks[rank_].begun) return true;
  }
  return false;
}

void Meeting::leave() { shared_->ranks[rank_].left = true; }

}  // namespace emu
