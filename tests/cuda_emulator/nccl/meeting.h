// Where the ranks of an emulated communicator meet: shared memory of processes on one machine.
#pragma once

#include <cstddef>
#include <string>

namespace emu {

// What a rank is about to do.
struct Collective {
  enum Kind : int { kAllReduce, kBroadcast, kAllGather };
  Kind kind = kAllReduce;
  int root = 0;
  int type = 0;
  std::size_t bytes = 0;  // of each rank
  bool operator==(const Collective&) const = default;
};

class Meeting {
 public:
  static constexpr int kMostRanks = 16;
  static constexpr std::size_t kSlotBytes = std::size_t{1} << 20;

  // Returns when all ranks are here; the name then is free again.
  Meeting(const std::string& name, int size, int rank);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device_of(int rank) const;
  // Memory that all ranks see, one piece for each of them.
  std::byte* slot(int rank) const;

  // All ranks come to their next collective, which must be the same. False when one has left.
  bool begin(const Collective& call);
  // All ranks come here. False when one has left.
  bool wait();
  // Whether another rank has begun a collective that this one has yet to come to.
  bool is_awaited() const;
  // This rank will not come any more.
  void leave();

 private:
  struct Shared;
  Shared* shared_ = nullptr;
  int size_, rank_;
  std::size_t bytes_;
};

}  // namespace emu
