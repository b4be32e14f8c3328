// Runs CUDA kernels on the host, to test them where there is no GPU. Each CUDA thread is a fiber;
// barriers, shuffles, shared memory and tensor-core fragments are real. One OS thread runs one
// block at a time.
//
// What it sees that a GPU often hides: shared memory starts poisoned, schedules are chosen to be
// hostile (see Schedule), lanes of a warp that meet at different places are an error, and any
// barrier can be removed to ask whether the tests would notice (see Fault).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};

namespace emu {

// How the threads of a block take turns. Seed 0: all warps go in step. Any other: in an order drawn
// from the seed, one warp at a time runs ahead until a barrier of the block stops it, and the lanes
// of a warp run in a drawn order between the points where they meet: the largest skew there can be.
struct Schedule {
  unsigned seed = 0;
};
void set_schedule(Schedule schedule);

// A place in a kernel's source where a block, or a warp, waits for itself.
struct BarrierSite {
  const char* file;
  int line;
  bool operator==(const BarrierSite& other) const;  // by file name, without its folder, and line
};
// Every site that kernels have passed since the last call.
std::vector<BarrierSite> take_barrier_sites();
// Lets every thread run through this barrier until clear_faults() is called.
void remove_barrier(const BarrierSite& site);
void clear_faults();
// For whole programs: DTN_EMULATOR_REMOVE=<file name>:<line> removes a barrier from the start, and
// DTN_EMULATOR_SITES=<path> writes the sites passed to that file at the end.

// Runs a kernel to its end. Returns what went wrong, or an empty string.
std::string run_kernel(dim3 grid, dim3 block, std::size_t shared_bytes,
                       const std::function<void()>& kernel);

// --- inside a kernel ----------------------------------------------------------------------------

namespace detail {

// One thread of the running block, as kernels see it. The threads of a warp lie side by side.
struct Thread {
  uint3 index{};
  int lane = 0;
  Thread* warp = nullptr;         // lane 0
  const char* meeting = nullptr;  // operation for which the warp waits
  // Values for the other lanes. Exchange n uses slot n % 2: a slot is written again only after every
  // lane has come to exchange n + 1, and so has finished reading.
  static constexpr std::size_t kSlotBytes = 64;
  alignas(16) std::byte slots[2][kSlotBytes];
  unsigned exchanges = 0;
  unsigned computed = 0;  // of lane 0: the last exchange whose common work is done
};

struct RunningBlock {
  uint3 index{};
  dim3 extent, grid;
  void* shared = nullptr;
};

extern constinit thread_local Thread* thread;
extern constinit thread_local RunningBlock* block;

}  // namespace detail

inline const uint3& thread_index() { return detail::thread->index; }
inline const uint3& block_index() { return detail::block->index; }
inline const dim3& block_extent() { return detail::block->extent; }
inline const dim3& grid_extent() { return detail::block->grid; }
inline void* shared_memory() { return detail::block->shared; }
inline int lane() { return detail::thread->lane; }

void block_barrier(const char* file, int line);
void warp_barrier(const char* file, int line);
// The lanes of a warp meet; `what` names the operation, which must be the same for all of them.
void meet_warp(const char* what);

// Shows every lane's value to the whole warp. Collective: all 32 lanes take part.
//   WarpView<float> view("shfl", value);   view.lane(3) is what lane 3 passed
// Read it before the next exchange.
template <class T>
class WarpView {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= detail::Thread::kSlotBytes);

 public:
  WarpView(const char* what, const T& mine) : slot_(detail::thread->exchanges++ % 2) {
    std::memcpy(detail::thread->slots[slot_], &mine, sizeof(T));
    meet_warp(what);
  }
  T lane(int i) const {
    T value;
    std::memcpy(&value, detail::thread->warp[i].slots[slot_], sizeof(T));
    return value;
  }

 private:
  unsigned slot_;
};

// The lanes meet, one of them computes for all, and each gets back what became of its own value.
// `compute(of)`: `of(i)` is a reference to the value of lane i. T is an aggregate without pointers
// into itself.
template <class T, class Compute>
T compute_together(const char* what, const T& mine, const Compute& compute) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= detail::Thread::kSlotBytes);
  detail::Thread& me = *detail::thread;
  const unsigned slot = me.exchanges++ % 2;
  T* own = new (me.slots[slot]) T(mine);
  meet_warp(what);
  if (me.warp->computed != me.exchanges) {
    me.warp->computed = me.exchanges;
    compute(
        [&](int i) -> T& { return *std::launder(reinterpret_cast<T*>(me.warp[i].slots[slot])); });
  }
  return *own;
}

// Every lane's object for the whole warp, to read and to write until the lanes meet again.
template <class T>
class WarpShare {
 public:
  WarpShare(const char* what, T& mine) : what_(what), objects_(what, &mine) {}
  T& lane(int i) const { return *objects_.lane(i); }
  void meet() const { meet_warp(what_); }

 private:
  const char* what_;
  WarpView<T*> objects_;
};

}  // namespace emu
