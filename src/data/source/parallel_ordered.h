// Work that threads share, with results consumed in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dtn {

// Calls make(i, workspace, result) for i in [begin, end) on `jobs` threads, each with its own
// Workspace, and consume(i, result) on the calling thread, in order. At most `window` results are
// held and reused. An exception of make() is thrown here in place of its result. The work ends
// early if consume() returns false or throws.
template <class Workspace, class Result, class Make, class Consume>
void for_each_in_order(std::int64_t begin, std::int64_t end, int jobs, Make&& make,
                       Consume&& consume) {
  struct Slot {
    Result result{};
    std::exception_ptr error;
    bool ready = false;
  };
  std::vector<Slot> slots(static_cast<std::size_t>(4 * std::max(jobs, 1)));
  const auto window = static_cast<std::int64_t>(slots.size());
  const auto slot_of = [&](std::int64_t i) -> Slot& {
    return slots[static_cast<std::size_t>(i % window)];
  };
  std::mutex mutex;
  std::condition_variable room, done;
  std::int64_t next = begin, consumed = begin;
  bool stopping = false;

  auto work = [&] {
    Workspace workspace;
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] { return stopping || next >= end || next < consumed + window; });
      if (stopping || next >= end) return;
      const std::int64_t i = next++;
      Slot& slot = slot_of(i);
      lock.unlock();
      try {
        make(i, workspace, slot.result);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slot.ready = true;
      if (i == consumed) done.notify_one();
    }
  };

  struct Threads {
    std::vector<std::thread> all;
    std::mutex& mutex;
    std::condition_variable& room;
    bool& stopping;
    ~Threads() {
      {
        std::lock_guard lock(mutex);
        stopping = true;
      }
      room.notify_all();
      for (std::thread& thread : all) thread.join();
    }
  } threads{{}, mutex, room, stopping};
  for (int t = 0; t < std::max(jobs, 1); ++t) threads.all.emplace_back(work);

  for (std::int64_t i = begin; i < end; ++i) {
    Slot& slot = slot_of(i);
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return slot.ready; });
    lock.unlock();
    if (slot.error) std::rethrow_exception(slot.error);
    if (!consume(i, slot.result)) return;
    lock.lock();
    slot.ready = false;
    consumed = i + 1;
    room.notify_one();
  }
}

}  // namespace dtn
