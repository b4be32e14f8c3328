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
#include <functional>
#include <string>
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

const uint3& thread_index();
const uint3& block_index();
const dim3& block_extent();
const dim3& grid_extent();
void* shared_memory();
int lane();

void block_barrier(const char* file, int line);
void warp_barrier(const char* file, int line);
// The lanes of a warp meet; `what` names the operation, which must be the same for all of them.
void meet_warp(const char* what);

// Shows every lane's object to the whole warp. Collective: all 32 lanes take part.
//   WarpView<float> view("shfl", value);   view.lane(3) is what lane 3 passed
template <class T>
class WarpView {
 public:
  WarpView(const char* what, const T& mine);
  ~WarpView();
  WarpView(const WarpView&) = delete;
  WarpView& operator=(const WarpView&) = delete;
  const T& lane(int i) const;

 private:
  const char* what_;
  const T mine_;
};

// The same, but the lanes may write into each other's objects until they meet again.
template <class T>
class WarpShare {
 public:
  WarpShare(const char* what, T& mine);
  T& lane(int i) const;
  void meet() const { meet_warp(what_); }

 private:
  const char* what_;
};

namespace detail {
void publish(const void* object);
const void* published(int lane);
}  // namespace detail

template <class T>
WarpView<T>::WarpView(const char* what, const T& mine) : what_(what), mine_(mine) {
  detail::publish(&mine_);
  meet_warp(what);
}
template <class T>
WarpView<T>::~WarpView() {
  meet_warp(what_);
}
template <class T>
const T& WarpView<T>::lane(int i) const {
  return *static_cast<const T*>(detail::published(i));
}

template <class T>
WarpShare<T>::WarpShare(const char* what, T& mine) : what_(what) {
  detail::publish(&mine);
  meet_warp(what);
}
template <class T>
T& WarpShare<T>::lane(int i) const {
  return *static_cast<T*>(const_cast<void*>(detail::published(i)));
}

}  // namespace emu
