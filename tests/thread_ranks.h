// Ranks as threads of one process, for tests without a launcher.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dist/device_transport.h"
#include "dist/transport.h"
#include "dtn/dist/communicator.h"

namespace dtn::testing {

// Meeting point of the threads. An operation is identified by its kind and its number in that kind.
class ThreadHub {
 public:
  explicit ThreadHub(int size) : size_(size), notes_(static_cast<std::size_t>(size)) {}

  struct Part {
    const std::byte* from = nullptr;
    std::vector<ByteBlock> blocks;
  };
  // The parts of all ranks; complete when each rank has contributed.
  struct Meeting {
    std::vector<Part> parts;
    int arrived = 0, left = 0;
  };

  std::shared_ptr<Meeting> join(int kind, std::size_t number, int rank, Part part) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Meeting>& meeting = meetings_[{kind, number}];
    if (!meeting) {
      meeting = std::make_shared<Meeting>();
      meeting->parts.resize(static_cast<std::size_t>(size_));
    }
    meeting->parts[static_cast<std::size_t>(rank)] = std::move(part);
    ++meeting->arrived;
    return meeting;
  }
  bool all_here(const Meeting& m) {
    std::lock_guard lock(mutex_);
    return m.arrived == size_;
  }
  void leave(Meeting& m) {
    std::lock_guard lock(mutex_);
    ++m.left;
  }
  // A rank may overwrite its data once every rank has read the data.
  bool all_left(const Meeting& m) {
    std::lock_guard lock(mutex_);
    return m.left == size_;
  }
  void send(const RankNote& note, int to) {
    std::lock_guard lock(mutex_);
    notes_[static_cast<std::size_t>(to)].push_back(note);
  }
  std::optional<RankNote> receive(int rank) {
    std::lock_guard lock(mutex_);
    auto& queue = notes_[static_cast<std::size_t>(rank)];
    if (queue.empty()) return std::nullopt;
    RankNote note = queue.front();
    queue.pop_front();
    return note;
  }
  int size() const { return size_; }

 private:
  int size_;
  std::mutex mutex_;
  std::map<std::pair<int, std::size_t>, std::shared_ptr<Meeting>> meetings_;
  std::vector<std::deque<RankNote>> notes_;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return hub_->size(); }

  std::unique_ptr<Move> exchange(const std::byte* from, const std::vector<ByteBlock>& from_blocks,
                                 std::byte* to, const std::vector<ByteBlock>& to_blocks) override {
    return start(0, exchanges_++, {from, from_blocks}, [this, to, to_blocks](const auto& parts) {
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const ByteBlock& block = parts[k].blocks[static_cast<std::size_t>(rank_)];
        EXPECT_EQ(block.bytes, to_blocks[k].bytes);
        std::memcpy(to + to_blocks[k].begin, parts[k].from + block.begin, block.bytes);
      }
    });
  }
  std::unique_ptr<Move> gather(std::byte* all, const std::vector<ByteBlock>& blocks) override {
    return start(1, gathers_++, {all, blocks}, [this, all, blocks](const auto& parts) {
      for (std::size_t k = 0; k < parts.size(); ++k) {
        if (static_cast<int>(k) == rank_) continue;
        std::memcpy(all + blocks[k].begin, parts[k].from + blocks[k].begin, blocks[k].bytes);
      }
    });
  }
  std::unique_ptr<Move> broadcast(std::byte* data, std::size_t bytes, int root) override {
    return start(1, gathers_++, {data, {}}, [this, data, bytes, root](const auto& parts) {
      if (rank_ != root) std::memcpy(data, parts[static_cast<std::size_t>(root)].from, bytes);
    });
  }
  void send(const RankNote& note, int to) override { hub_->send(note, to); }
  std::optional<RankNote> receive() override { return hub_->receive(rank_); }
  [[noreturn]] void abort(int) override { throw std::logic_error("a test must not abort"); }

 private:
  using Copy = std::function<void(const std::vector<ThreadHub::Part>&)>;

  class ThreadMove : public Move {
   public:
    ThreadMove(ThreadHub& hub, std::shared_ptr<ThreadHub::Meeting> meeting, Copy copy)
        : hub_(hub), meeting_(std::move(meeting)), copy_(std::move(copy)) {}
    bool done() override {
      if (copy_ && hub_.all_here(*meeting_)) {
        copy_(meeting_->parts);
        copy_ = nullptr;
        hub_.leave(*meeting_);
      }
      return !copy_ && hub_.all_left(*meeting_);
    }

   private:
    ThreadHub& hub_;
    std::shared_ptr<ThreadHub::Meeting> meeting_;
    Copy copy_;
  };

  std::unique_ptr<Move> start(int kind, std::size_t number, ThreadHub::Part part, Copy copy) {
    return std::make_unique<ThreadMove>(*hub_, hub_->join(kind, number, rank_, std::move(part)),
                                        std::move(copy));
  }

  std::shared_ptr<ThreadHub> hub_;
  int rank_;
  std::size_t exchanges_ = 0, gathers_ = 0;
};

// Runs `body` once for each of `size` ranks, concurrently. Each rank has a Transport, made from the
// hub and its number. Throws the first exception again; the other ranks must not wait for the
// failed rank. Ranks that wait for a missing rank end the program.
template <class Transport = ThreadTransport>
void with_ranks(int size, const std::function<void(Communicator&)>& body) {
  auto hub = std::make_shared<ThreadHub>(size);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Communicator ranks([&] { return std::make_unique<Transport>(hub, rank); },
                           {.timeout_seconds = 60});
        body(ranks);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace dtn::testing
