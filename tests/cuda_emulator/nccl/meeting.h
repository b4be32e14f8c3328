// Meeting point of the ranks of an emulated communicator: shared memory of processes on one
// machine.
#pragma once

#include <cstddef>
#include <string>

namespace emu {

// A collective that a rank is about to start.
struct Collective {
  enum Kind : int { kAllReduce, kBroadcast, kAllGather };
  Kind kind = kAllReduce;
  int root = 0;
  int type = 0;
  std::size_t bytes = 0;  // per rank
  bool operator==(const Collective&) const = default;
};

class Meeting {
 public:
  static constexpr int kMaxRanks = 16;
  static constexpr std::size_t kSlotBytes = std::size_t{1} << 20;

  // Returns when all ranks have joined. Then the name is free again.
  Meeting(const std::string& name, int size, int rank);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device_of(int rank) const;
  // Memory that all ranks see: one slot per rank.
  std::byte* slot(int rank) const;

  // Waits until all ranks begin their next collective, which must be the same. Returns false if a
  // rank has left.
  bool begin(const Collective& call);
  // Waits until all ranks arrive. Returns false if a rank has left.
  bool wait();
  // Returns true if another rank has begun a collective that this rank has not reached yet.
  bool is_awaited() const;
  // This rank will take part in no further collective.
  void leave();

 private:
  struct Shared;
  Shared* shared_ = nullptr;
  int size_, rank_;
  std::size_t bytes_;
};

}  // namespace emu
