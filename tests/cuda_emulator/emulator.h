// Runs CUDA kernels on the host, to test them without a GPU. Each CUDA thread is a fiber. Barriers,
// shuffles, shared memory and tensor-core fragments work as on a device. One OS thread runs one
// block at a time.
//
// The emulator detects errors that a GPU often hides. Shared memory starts poisoned, and schedules
// are hostile (see Schedule). Lanes of a warp that meet at different places are an error. Any
// barrier can be removed, to check that the tests notice it (see remove_barrier()).
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

// Order in which the threads of a block run. With seed 0 all warps run in step. With any other
// seed, one warp at a time runs ahead until a block barrier stops it, in an order drawn from the
// seed. The lanes of a warp run in a random order between the points where they meet. This gives
// the largest possible skew.
struct Schedule {
  unsigned seed = 0;
};
void set_schedule(Schedule schedule);

// A place in the source of a kernel where a block or a warp synchronizes.
struct BarrierSite {
  const char* file;
  int line;
  // Compares the file name without its folder, and the line.
  bool operator==(const BarrierSite& other) const;
};
// Returns every site that kernels have passed since the last call.
std::vector<BarrierSite> take_barrier_sites();
// Lets every thread pass this barrier without waiting, until clear_faults() is called.
void remove_barrier(const BarrierSite& site);
void clear_faults();
// For whole programs: DTN_EMULATOR_REMOVE=<file name>:<line> removes a barrier from the start.
// DTN_EMULATOR_SITES=<path> writes the passed sites to that file at the end.

// Runs a kernel to its end. Returns the error, or an empty string.
std::string run_kernel(dim3 grid, dim3 block, std::size_t shared_bytes,
                       const std::function<void()>& kernel);

// --- inside a kernel ----------------------------------------------------------------------------

namespace detail {

// One thread of the running block, as kernels see it. The threads of a warp are adjacent.
struct Thread {
  uint3 index{};
  int lane = 0;
  Thread* warp = nullptr;         // lane 0
  const char* meeting = nullptr;  // operation for which the warp waits
  // Values for the other lanes. Exchange n uses slot n % 2. A slot is overwritten only after every
  // lane has reached exchange n + 1, and so has finished reading.
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
// Waits until all lanes of the warp meet. `what` names the operation, which must be the same for
// all lanes.
void meet_warp(const char* what);

// Shows the value of every lane to the whole warp. Collective: all 32 lanes take part. Read the
// values before the next exchange.
//    WarpView<float> view("shfl", value);   view.lane(3) is the value that lane 3 passed
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

// The lanes meet, one lane computes for all, and each lane gets back its changed value. In
// `compute(of)`, `of(i)` is a reference to the value of lane i. T is an aggregate without pointers
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

// Gives the whole warp access to every lane's object, to read and write until the next meeting.
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
